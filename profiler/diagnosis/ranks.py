"""Several ranks: the slowest path through their steps, who holds the others up, their clocks.

Ranks that train together end their steps together: the fast ones wait in collectives. So a rank's
own time in a step is its duration less that wait, and the rank that waits least is the one that
the others wait for. The slowest path takes each step from that rank: it is what the job would have
to shorten. Pure: steps in, figures out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from . import shares
from .model import Compared, Steady, Step
from .statistics import quantile

FEWEST = 8  # common steps, from which ranks are compared step by step
PARTS = ("input", "forward", "backward", "optimizer", "checkpoint", "logging", "evaluation", "rest")


class Peer(NamedTuple):
    """A process that makes steps: its node (place among the run files) and pid."""

    node: int
    pid: int


@dataclass(frozen=True)
class Path:
    """What is judged of several ranks."""

    critical: Peer | None
    steady: Steady
    compared: Compared | None = None


def own_ns(step: Step) -> int:
    """A step's time without the wait for other ranks."""
    return step.duration_ns - min(step.duration_ns, step.collective_ns or 0)


def slowest_path(found: Mapping[Peer, Steady]) -> Path:
    """The path; of one process, or of several that do not step together, the slowest one's."""
    if not found:
        return Path(None, Steady())
    most = max(len(s.steps) for s in found.values())
    peers = {peer: s for peer, s in found.items() if len(s.steps) * 2 >= most}
    critical = max(peers, key=lambda p: _mean_own(peers[p]))
    common = _common(peers) if len(peers) > 1 else {}
    waits = any(s.collective_ns for part in peers.values() for s in part.steps)
    if len(common) < FEWEST or not waits:
        return Path(critical, peers[critical])
    names = list(peers)
    slowest = [max(range(len(names)), key=lambda i: own_ns(row[i])) for row in common.values()]
    counted = Counter(slowest)
    critical = names[counted.most_common(1)[0][0]]
    chosen = tuple(row[i] for row, i in zip(common.values(), slowest, strict=True))
    return Path(
        critical, replace(peers[critical], steps=chosen),
        _compare(names, list(common.values()), slowest, counted),
    )  # fmt: skip


def _mean_own(part: Steady) -> float:
    return sum(map(own_ns, part.steps)) / max(1, len(part.steps))


def _common(peers: Mapping[Peer, Steady]) -> dict[int, tuple[Step, ...]]:
    """By number, the steps that all peers made."""
    by_number = [{s.step: s for s in part.steps} for part in peers.values()]
    numbers = set(by_number[0]).intersection(*by_number[1:])
    return {n: tuple(steps[n] for steps in by_number) for n in sorted(numbers)}


def _compare(
    names: Sequence[Peer], rows: Sequence[tuple[Step, ...]], slowest: Sequence[int],
    counted: Counter[int],
) -> Compared:  # fmt: skip
    count = len(rows)
    total = sum(row[i].duration_ns for row, i in zip(rows, slowest, strict=True))
    excess = typical = 0.0
    more = Counter[str]()
    for row, i in zip(rows, slowest, strict=True):
        own = sorted(map(own_ns, row))
        excess += own[-1] - own[-2]
        typical += own[-2]
        mine, others = parts(row[i]), [parts(s) for k, s in enumerate(row) if k != i]
        for part in PARTS:
            more[part] += int(mine[part] - sum(o[part] for o in others) / len(others))
    who, times = counted.most_common(1)[0]
    part, part_ns = more.most_common(1)[0]
    return Compared(
        steps=count, peers=len(names), rank=rows[0][who].rank, recurrence=times / count,
        excess_share=excess / total if total else 0.0, excess_s=excess / count / 1e9,
        others_s=typical / count / 1e9, part=part, part_s=part_ns / count / 1e9,
        slowest={names[i]: n / count for i, n in counted.items()},
    )  # fmt: skip


def samples_times(found: Mapping[Peer, Steady], path: Steady) -> float | None:
    """Samples that all ranks train on in a step, to those of the path's rank; None if not known."""
    mine = _mean_samples(path)
    each = [_mean_samples(part) for part in found.values() if part.steps]
    known = [samples for samples in each if samples is not None]
    return sum(known) / mine if mine and len(known) == len(each) else None


def _mean_samples(part: Steady) -> float | None:
    counted = [step.samples for step in part.steps if step.samples is not None]
    return sum(counted) / len(counted) if counted and len(counted) == len(part.steps) else None


def parts(step: Step) -> dict[str, int]:
    """A step's own time by the phases that a user knows; the rest is the loop's own code."""
    found = {
        "input": (step.data_wait_ns or 0) + (step.iterator_ns or 0),
        "forward": step.forward_ns or 0, "backward": step.backward_ns or 0,
        "optimizer": step.optimizer_ns or 0, "checkpoint": step.checkpoint_ns or 0,
        "logging": step.logging_ns or 0, "evaluation": step.evaluation_ns or 0,
    }  # fmt: skip
    found["rest"] = max(0, own_ns(step) - sum(found.values()))
    return found


def clock_offsets(found: Mapping[Peer, Steady]) -> dict[int, tuple[float, float]]:
    """By node: how far its clock is ahead of the first node's and how sure that is, in ns.

    Steps end together on all ranks, give or take what the optimizer takes: the offset is the median
    over the common steps of the difference of their ends, the doubt half of its 10-90 % range.
    """
    nodes = sorted({peer.node for peer in found})
    rows = _common(found) if len(nodes) > 1 else {}
    if len(rows) < FEWEST:
        return {}
    place = {peer: i for i, peer in enumerate(found)}
    ends: dict[int, list[float]] = {}
    for node in nodes:
        mine = [place[p] for p in found if p.node == node]
        ends[node] = [
            quantile([row[i].t_ns + row[i].duration_ns for i in mine], 0.5) or 0.0
            for row in rows.values()
        ]
    first = ends[nodes[0]]
    offsets = {}
    for node in nodes:
        apart = [b - a for a, b in zip(first, ends[node], strict=True)]
        low, middle, high = (quantile(apart, q) or 0.0 for q in (0.1, 0.5, 0.9))
        offsets[node] = (middle, (high - low) / 2)
    return offsets


def clock_notes(table: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What the clocks of several nodes mean for a reader of their times."""
    ahead = {r["host"]: (r["clock_ahead_ms"], r["clock_doubt_ms"]) for r in table if "host" in r}
    if len(ahead) < 2:
        return ()
    if None in [offset for offset, _ in ahead.values()]:
        return ("the nodes' clocks could not be compared: no steps that all ranks made together",)
    found = [f"{host} {offset:+.1f} ms (give or take {doubt:.1f})"
             for host, (offset, doubt) in list(ahead.items())[1:9]]  # fmt: skip
    return (f"clocks against {next(iter(ahead))}, from the ends of common steps: "
            + ", ".join(found),)  # fmt: skip


def rows(
    found: Mapping[Peer, Steady], steps: Mapping[Peer, Sequence[Step]], path: Path,
    hosts: Sequence[str], counts: Mapping[Peer, int],
) -> tuple[dict[str, Any], ...]:  # fmt: skip
    """The report's table of ranks."""
    offsets = clock_offsets(found) if len(hosts) > 1 else {}
    made = []
    for peer, part in found.items():
        count = len(part.steps)
        if not count and len(found) > 1:
            continue
        row = _row(part, count) | {"rank": steps[peer][0].rank, "pid": peer.pid,
                                   "steps": counts[peer]}  # fmt: skip
        if path.compared is not None:
            row["slowest_share"] = path.compared.slowest.get(peer, 0.0)
        if len(hosts) > 1:
            ahead = offsets.get(peer.node)
            row["host"] = hosts[peer.node]
            row["clock_ahead_ms"] = ahead[0] / 1e6 if ahead else None
            row["clock_doubt_ms"] = ahead[1] / 1e6 if ahead else None
        made.append({key: row[key] for key in _ORDER if key in row})
    return tuple(sorted(made, key=lambda r: (r["rank"] is None, r["rank"] or 0)))


_ORDER = (
    "rank", "host", "pid", "steps", "step_ms", "own_ms", "wait_ms", "slowest_share", "input_share",
    "communication_share", "clock_ahead_ms", "clock_doubt_ms",
)  # fmt: skip


def _row(part: Steady, count: int) -> dict[str, Any]:
    if not count:
        return dict.fromkeys(
            ("step_ms", "own_ms", "wait_ms", "input_share", "communication_share")
        )  # fmt: skip
    duration = part.duration_ns or 1
    sums = dict(zip(shares.RAW, shares.totals(part.steps), strict=True))
    observed = any(s.collective_ns is not None for s in part.steps)
    wait = sums["communication"]
    return {
        "step_ms": duration / count / 1e6,
        "own_ms": (duration - wait) / count / 1e6 if observed else None,
        "wait_ms": wait / count / 1e6 if observed else None,
        "input_share": sums["input"] / duration, "communication_share": wait / duration,
    }  # fmt: skip
