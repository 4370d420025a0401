"""Where the time of one step went: exclusive phases from nested spans.

`flatten` turns spans (children before parents, as they ended) into pieces that never overlap.
`Accountant.add` sorts the pieces of a stretch of time into phases; what no piece covers is gap.
Phases, gap and pre_forward of a stretch always sum to its length.

Evaluation is found by batches. The pieces from one fetch to the next are a group. A group whose
forwards run without grad or in eval mode, with no backward and no optimizer, is evaluation, from
the start of its fetch to the next fetch; its loader's other fetches beside it (start, end,
prefetch) belong to it. A forward without a loader is evaluation when the same root module also
trains; a root that never trains is a teacher or a frozen encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..hooks import wire
from .ring import Span

CONTINUED = 0x100  # flag of a piece: not the first of its span

# Columns of table `step` that add up to its duration, by the kind of span
PHASES = {
    wire.DATA_WAIT: "data_wait",
    wire.H2D: "h2d",
    wire.FORWARD: "forward",
    wire.BACKWARD: "backward",
    wire.OPTIMIZER: "optimizer",
    wire.CHECKPOINT: "checkpoint",
    wire.LOGGING: "logging",
    wire.EVALUATION: "evaluation",
    wire.COLLECTIVE: "collective",
}
_WORK = frozenset({wire.FORWARD, wire.BACKWARD, wire.OPTIMIZER})
_BETWEEN = frozenset({wire.H2D, wire.LOGGING, wire.COLLECTIVE})
_TRAINING = wire.F_GRAD | wire.F_TRAINING


def flatten(spans: Iterable[Span], start: int, end: int) -> list[Span]:
    """Pieces in order of time, within [start, end). A parent keeps what its children leave."""
    out: list[Span] = []
    for span in spans:
        s, e, kind, flags, ident, value = span
        if s < start or e > end:
            s, e = max(s, start), min(e, end)
        if not out or s >= out[-1][1]:
            if e > s:
                out.append(span if s == span[0] and e == span[1] else (s, e, *span[2:]))
            continue
        at = len(out)
        while at and out[at - 1][0] >= s:
            at -= 1
        if at and out[at - 1][1] > s:
            s = out[at - 1][1]  # overlaps without nesting: the earlier one keeps its time
        if e <= s:
            continue
        if kind == wire.EVALUATION:  # all that is inside is part of it
            out[at:] = [(s, e, kind, flags, ident, value)]
            continue
        pieces: list[Span] = []
        for child in out[at:]:
            if child[0] > s:
                pieces.append((s, child[0], kind, flags, ident, value))
                flags, value = flags | CONTINUED, 0
            pieces.append(child)
            s = child[1]
        if e > s:
            pieces.append((s, e, kind, flags, ident, value))
        out[at:] = pieces
    return out


@dataclass
class Tally:
    """Sums over a stretch of time, ns."""

    phases: dict[str, int] = field(default_factory=dict)
    iterator: int = 0
    pre_forward: int = 0
    gap: int = 0
    wait_cpu: int = 0  # of the waits whose CPU time was measured,
    wait_measured: int = 0  # and their length
    fetches: list[tuple[int, int]] = field(default_factory=list)  # loader, start; no evaluation
    starts_epoch: bool = False
    forwarded: bool = False  # a forward that is not evaluation was seen
    samples: dict[int, int] = field(default_factory=dict)  # by root module, from its calls
    backwards: int = 0  # not inside an optimizer's step
    optimizers: int = 0
    spans: dict[int, int] = field(default_factory=dict)  # how many, by kind

    def total(self) -> int:
        return sum(self.phases.values()) + self.iterator + self.pre_forward + self.gap


@dataclass
class _Group:
    """The pieces from one fetch to the next; loader None: before the first fetch."""

    loader: int | None
    first: int
    waits: int = 0  # leading pieces that only wait
    trains: bool = False
    last_forward: int = -1

    @property
    def evaluates(self) -> bool:
        return self.loader is not None and self.last_forward >= 0 and not self.trains

    @property
    def idle(self) -> bool:
        return self.loader is not None and self.last_forward < 0 and not self.trains


class Accountant:
    """Accounts for one process, stretch after stretch; remembers roots and iterators between."""

    def __init__(self) -> None:
        self._trained: set[int] = set()  # root modules that were called in training
        self._fresh: set[int] = set()  # loaders whose next batch is the first of an epoch

    def add(
        self, tally: Tally, spans: Sequence[Span], start: int, end: int, *, evaluation: bool
    ) -> None:
        """Adds the stretch [start, end). `evaluation`: look for it (the process trains)."""
        pieces = flatten(spans, start, end)
        _count_work(tally, spans)
        inside = self._evaluation(pieces) if evaluation else []
        inside = _merge(inside, [(p[0], p[1]) for p in pieces if p[2] == wire.EVALUATION])
        at, phases, next_inside = start, tally.phases, 0
        for piece in pieces:
            while next_inside < len(inside) and inside[next_inside][0] <= piece[0]:
                low, high = inside[next_inside]
                _gap(tally, low - at)
                phases["evaluation"] = phases.get("evaluation", 0) + high - low
                at, next_inside = high, next_inside + 1
            if piece[0] < at:  # part of the evaluation just counted
                self._note_iterator(piece)
                continue
            _gap(tally, piece[0] - at)
            at = piece[1]
            if piece[2] == wire.DATA_WAIT:
                self._wait(tally, piece)
            else:
                _work(tally, piece)
        _gap(tally, end - at)

    def _wait(self, tally: Tally, piece: Span) -> None:
        start, end, _, flags, loader, value = piece
        first = self._note_iterator(piece)
        if flags & (wire.F_ITER_START | wire.F_ITER_END) or first:
            tally.iterator += end - start
            tally.starts_epoch |= bool(flags & wire.F_ITER_START)
        else:
            tally.phases["data_wait"] = tally.phases.get("data_wait", 0) + end - start
            if not flags & wire.F_NO_CPU:
                tally.wait_cpu += min(value * 1000, end - start)
                tally.wait_measured += end - start
        if not flags & (wire.F_ITER_START | wire.F_ITER_END | wire.F_RAISED | CONTINUED):
            tally.fetches.append((loader, start))

    def _note_iterator(self, piece: Span) -> bool:
        """Whether a wait is for the first batch of an epoch."""
        if piece[2] != wire.DATA_WAIT:
            return False
        flags, loader = piece[3], piece[4]
        if flags & wire.F_ITER_START:
            self._fresh.add(loader)
        elif loader in self._fresh and not flags & CONTINUED:
            self._fresh.discard(loader)
            return True
        return False

    def _evaluation(self, pieces: Sequence[Span]) -> list[tuple[int, int]]:
        groups = _groups(pieces)
        for _, _, kind, flags, root, _ in pieces:
            if kind == wire.FORWARD and flags & _TRAINING == _TRAINING:
                self._trained.add(root)
        found = _loops(groups, pieces) if any(g.evaluates for g in groups) else []
        single: list[tuple[int, int]] = []
        between = False  # nothing but copies and logging since the last one
        for start, end, kind, flags, root, _ in pieces:
            if kind == wire.FORWARD and not flags & _TRAINING and root in self._trained:
                if between:
                    single[-1] = (single[-1][0], end)
                else:
                    single.append((start, end))
                between = True
            elif kind not in _BETWEEN:
                between = False
        return _merge(found, single)


def _groups(pieces: Sequence[Span]) -> list[_Group]:
    groups = [_Group(None, 0)]
    for at, (_, _, kind, flags, ident, _) in enumerate(pieces):
        group = groups[-1]
        if kind == wire.DATA_WAIT:
            idle = group.last_forward < 0 and not group.trains
            if not (idle and group.loader == ident):
                groups.append(_Group(ident, at, waits=1))
            elif at == group.first + group.waits:
                group.waits += 1
        elif kind == wire.FORWARD:
            group.last_forward = at
            group.trains |= flags & _TRAINING == _TRAINING
        elif kind in _WORK:
            group.trains = True
    return groups


def _loops(groups: Sequence[_Group], pieces: Sequence[Span]) -> list[tuple[int, int]]:
    """From and to of each run of evaluating groups, with the fetches that belong to them."""
    mine = [group.evaluates for group in groups]
    last = len(groups) - 1
    for at, group in enumerate(groups):
        if group.idle:
            before = groups[at - 1] if at and mine[at - 1] else None
            after = groups[at + 1] if at < last and groups[at + 1].evaluates else None
            same = [g for g in (before, after) if g and g.loader == group.loader]
            mine[at] = bool(same) or bool(before and after)
    found: list[tuple[int, int]] = []
    at = 0
    while at <= last:
        if not mine[at]:
            at += 1
            continue
        first = at
        while at < last and mine[at + 1]:
            at += 1
        group = groups[at]
        final = group.last_forward if group.evaluates else group.first + group.waits - 1
        found.append((pieces[groups[first].first][0], pieces[final][1]))
        at += 1
    return found


def _merge(*lists: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of intervals, in order."""
    filled = [one for one in lists if one]
    if not filled:
        return []
    if len(filled) == 1:
        return filled[0]
    out: list[tuple[int, int]] = []
    for low, high in sorted(interval for one in filled for interval in one):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


def _gap(tally: Tally, length: int) -> None:
    if length > 0:
        if tally.forwarded:
            tally.gap += length
        else:
            tally.pre_forward += length


def _work(tally: Tally, piece: Span) -> None:
    start, end, kind, flags, ident, value = piece
    name = PHASES[kind]
    tally.phases[name] = tally.phases.get(name, 0) + end - start
    if kind == wire.FORWARD:
        tally.forwarded = True
        if value and not flags & (CONTINUED | wire.F_CALLS):
            tally.samples[ident] = tally.samples.get(ident, 0) + value


def _count_work(tally: Tally, spans: Sequence[Span]) -> None:
    """Counts backwards and optimizer steps; those of a closure are inside the optimizer's."""
    inside = 1 << 63
    for start, _, kind, flags, _, _ in reversed(spans):
        if not (kind == wire.DATA_WAIT and flags & wire.F_ITER_START):  # workers start: not timed
            tally.spans[kind] = tally.spans.get(kind, 0) + 1
        if kind == wire.OPTIMIZER:
            inside = min(inside, start)
            tally.optimizers += not flags & wire.F_RAISED
        elif kind == wire.BACKWARD and start < inside:
            tally.backwards += 1
