"""What is not the same in all runs: arguments, environment, hardware, git, settings."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..report import Report
from .model import Change, Changed
from .sides import Side

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_PATIENCE_S = 10
_HARDWARE = ("cpu", "cpu_model", "cpus", "cpus_usable", "cpu_count", "memory_bytes", "driver")


def changed(sides: Sequence[Side]) -> Changed:
    """All differences between the runs."""
    reports = [side.report for side in sides]
    commits = [report.run.git.get("commit") for report in reports]
    return Changed(
        arguments=differing([arguments(r.run.command) for r in reports]),
        environment=differing([_environment(r) for r in reports]),
        hardware=differing([_hardware(r) for r in reports]),
        git=differing([_git(r) for r in reports]),
        settings=differing([settings(side) for side in sides]),
        git_stat=git_stat(reports[-1].run.cwd, commits[0], commits[-1]),
    )


def differing(sides: Sequence[Mapping[str, Any]]) -> list[Change]:
    """Names whose value is not the same everywhere; None where a run has none."""
    names = dict.fromkeys(name for side in sides for name in side)
    found = (Change(name, [side.get(name) for side in sides]) for name in names)
    return [change for change in found if any(v != change.values[0] for v in change.values)]


def arguments(command: Sequence[str]) -> dict[str, str]:
    """A command line by name: options by theirs, other words by their place."""
    found: dict[str, str] = {}
    place, at = 0, 0
    while at < len(command):
        word = command[at]
        at += 1
        if not re.match(r"--?[A-Za-z]", word):
            found["program" if place == 0 else f"argument {place}"] = word
            place += 1
            continue
        name, equals, value = word.partition("=")
        if not equals and at < len(command) and not re.match(r"--?[A-Za-z]", command[at]):
            value = command[at]
            at += 1
        elif not equals:
            value = "given"
        found[name] = f"{found[name]} {value}" if name in found else value
    return found


def _environment(report: Report) -> dict[str, Any]:
    flat = _flat(report.run.environment)
    return {k: v for k, v in flat.items() if k not in _HARDWARE}


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{name}.")
        elif isinstance(value, str | int | float | bool | list):
            found[before + name] = value
    return found


def _hardware(report: Report) -> dict[str, Any]:
    counted = Counter(device.name for device in report.devices)
    devices = ", ".join(f"{n} x {name}" if n > 1 else name for name, n in counted.items())
    known = {k: report.run.environment.get(k) for k in _HARDWARE}
    return {"host": report.run.host, "devices": devices, "ranks": report.time.ranks} | known


def _git(report: Report) -> dict[str, Any]:
    git = report.run.git
    return {"commit": git.get("commit"), "changes not committed": git.get("dirty")}


def settings(side: Side) -> dict[str, Any]:
    """Loader, optimizers and samples a step, as the hooks saw them."""
    view, found = side.view, {}
    if loader := view.loader:
        found = {
            "num_workers": loader.num_workers, "batch_size": loader.batch_size,
            "prefetch_factor": loader.prefetch, "persistent_workers": loader.persistent,
            "multiprocessing_context": loader.context, "batches an epoch": loader.length,
        }  # fmt: skip
    names = sorted({str(o["name"]) for o in view.optimizers if o.get("name")})
    sizes = Counter(s.samples for s in view.steady.steps if s.samples)
    found["optimizer"] = ", ".join(names) or None
    found["samples a step"] = sizes.most_common(1)[0][0] if sizes else None
    found["precision"] = view.split.dtype if view.split else None
    return found


def git_stat(folder: str, first: Any, last: Any) -> str | None:
    """`3 files changed, 12 insertions(+)` between two commits, where their repository is here.

    Only objects are read: no external diff, no text conversion, no file system monitor.
    """
    for commit in (first, last):
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            return None
    if first == last or not folder or not Path(folder).is_dir():
        return None
    words = ["git", "-c", "core.fsmonitor=false", "-C", folder, "diff", "--shortstat",
             "--no-ext-diff", "--no-textconv", first, last, "--"]  # fmt: skip
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
