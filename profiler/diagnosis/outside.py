"""What a job's stacks alone can tell, when no hook saw its steps: an estimate, never a measurement.

Samples within one window are alike, so the error is that between windows. A wait for data that
fills clearly more than half of the samples outweighs all else together, whatever that is; whether
memory or arithmetic limits the rest cannot be told.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..report import SHARES, Bottleneck, Verdict
from . import stacks
from .model import RunView, evidence, speedup_limit
from .text import percent

if TYPE_CHECKING:
    from .view import Reader

FEWEST_WINDOWS, FEWEST_SAMPLES = 5, 150
SURE_ERRORS = 3.0  # standard errors over one half
BUSY = 0.5  # of the device's time: then the thread's wait is hidden behind its work
_SHARE_OF = {
    "loader": "input", "input": "input", "checkpoint": "checkpoint", "logging": "logging",
    "evaluation": "evaluation",
}  # fmt: skip


class Estimate(NamedTuple):
    """Shares of the training thread's samples, and what they rest on."""

    windows: int
    samples: int
    shares: dict[str, float]  # as the contract names them; the work itself is in `other`
    work: float  # of all samples, in the model's code
    errors: dict[str, float]  # standard errors; of `work`, too

    @property
    def enough(self) -> bool:
        return self.windows >= FEWEST_WINDOWS and self.samples >= FEWEST_SAMPLES


def training_process(
    rows: Sequence[tuple[Any, ...]], processes: Sequence[dict[str, Any]]
) -> int | None:
    """The main process or rank with the most samples of (pid, thread, frames, samples) rows."""
    training = {p["pid"] for p in processes if p["role"] in ("main", "rank")}
    counts: Counter[int] = Counter()
    for pid, _, _, samples in rows:
        if pid in training:
            counts[pid] += samples
    return counts.most_common(1)[0][0] if counts else None


def estimate(reader: Reader, pid: int | None) -> Estimate | None:
    """The main thread's time by categories once the model works; None without such samples."""
    rows = reader.rows(
        "SELECT t_ns, frames, sum(samples) FROM stack WHERE pid = ? AND thread ILIKE '%main%' "
        "AND NOT contains(frames, '<frozen importlib') GROUP BY ALL ORDER BY t_ns LIMIT 20000",
        (pid,),
    )
    windows: dict[int, Counter[str]] = {}
    for t_ns, frames, samples in rows:
        category, _ = stacks.classify(frames)
        name = _SHARE_OF.get(category, "work" if category == "model" else "other")
        windows.setdefault(t_ns, Counter())[name] += int(samples)
    while windows and not next(iter(windows.values()))["work"]:
        del windows[next(iter(windows))]  # before the model's first work the job sets itself up
    if not windows:
        return None
    totals: Counter[str] = Counter()
    for found in windows.values():
        totals.update(found)
    count = totals.total()
    parts = {name: totals[name] / count for name in (*set(_SHARE_OF.values()), "work")}
    shares = dict.fromkeys(SHARES, 0.0) | {k: v for k, v in parts.items() if k != "work"}
    shares["other"] = max(0.0, 1.0 - sum(shares.values()))
    errors = {name: _error(list(windows.values()), name, part) for name, part in parts.items()}
    return Estimate(len(windows), count, shares, parts["work"], errors)


def _error(windows: Sequence[Counter[str]], name: str, share: float) -> float:
    """Standard error of a share from the scatter between windows, at least that of chance."""
    count = sum(window.total() for window in windows)
    chance = math.sqrt(max(share * (1 - share), 1 / count) / count)
    if len(windows) < 2:
        return max(chance, 0.5)
    off = sum((w[name] - share * w.total()) ** 2 for w in windows)
    return max(chance, math.sqrt(off * len(windows) / (len(windows) - 1)) / count)


_LED_BY: dict[str, tuple[Bottleneck, str]] = {
    "input": ("input-bound", "waits for data"),
    "checkpoint": ("checkpoint-bound", "saves checkpoints"),
    "logging": ("host-bound", "writes logs"),
}


def judge(view: RunView, found: Estimate) -> Verdict:
    """Low confidence at best."""
    basis = f"{found.samples} stack samples in {found.windows} windows"
    if not found.enough:
        need = f"{FEWEST_WINDOWS} windows and {FEWEST_SAMPLES} samples are needed"
        return _inconclusive(f"Seen from outside only: {basis}; {need}, let it record longer.")
    for name, (bottleneck, does) in _LED_BY.items():
        share = found.shares[name]
        if share - SURE_ERRORS * found.errors[name] <= 0.5:
            continue
        busy = view.device.busy_share
        if not view.on_cpu and (busy is None or busy > BUSY):
            why = "is not known to be idle" if busy is None else f"is busy {percent(busy)}"
            return _inconclusive(
                f"The training thread {does} in {percent(share)} of {basis}, but the device {why} "
                "meanwhile: `accelprof run` can tell how much of that is hidden."
            )
        text = f"the training thread {does} in {percent(share)} of {basis}"
        return Verdict(
            bottleneck=bottleneck,
            confidence="low",
            headline=f"{bottleneck.capitalize()}, as far as stacks tell: {text}.",
            cause=None,
            evidence=[evidence(text, f"{name}_share", share)],
            speedup_limit=speedup_limit(share),
            against=["an estimate from stacks; `accelprof run` measures each step"],
        )
    return _inconclusive(_not_told(found, basis))


def _not_told(found: Estimate, basis: str) -> str:
    waits, error = found.shares["input"], found.errors["input"]
    if found.work - SURE_ERRORS * found.errors["work"] > 0.5:
        most = min(1.0, waits + SURE_ERRORS * error)
        return (
            f"Not input-bound: {percent(found.work)} of {basis} are the model's own work, at most "
            f"{percent(most)} wait for data. Memory or compute cannot be told without hooks: "
            "start it by `accelprof run`."
        )
    return (
        f"Seen from outside, nothing leads clearly: {percent(waits)} (standard error "
        f"{percent(error)}) of {basis} wait for data, {percent(found.work)} are the model's own "
        "work; start it by `accelprof run` to measure steps."
    )


def _inconclusive(why: str) -> Verdict:
    return Verdict(
        bottleneck="inconclusive", confidence="low", headline=why, cause=None, evidence=[],
        speedup_limit=None, against=[],
    )  # fmt: skip
