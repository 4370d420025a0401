"""Cuts one process's spans into steps. Pure: spans in, rows out.

A step ends
- marked:    where `accelprof.step()` says so, once it was called;
- train:     where the next fetch starts after an optimizer stepped. Without a loader, at the end
             of the last optimizer before one that already stepped in this step steps again;
- backward:  (a backward and never an optimizer) where the next fetch starts after a backward, or,
             without a loader, where a root module is called in training again;
- inference: (neither) where a root module already called is called again, or at a fetch;
- loading:   (nothing but fetches) where a loader that was already asked is asked again. The first
             call of a model ends it: the statistics of a data set are taken before a training.

Which of these a process does shows only after a while: until then its spans are kept and nothing
is said (`unknown`). So the validation before a training is part of the first training step, and
micro-batches before the first optimizer step are not taken for steps.

A step is told when the next one ends: what follows the last step of all (the last evaluation, the
last checkpoint) is added to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ..hooks import wire
from .accounting import PHASES
from .calls import calls_of, split
from .ring import Span
from .step_maker import MAKERS, Built, Mode, StepMaker, add

KEPT_SPANS = 16_384  # of one step; beyond this the earlier ones are summed up
UNKNOWN_FORWARDS = 64  # calls without a backward until a process counts as inference,
UNKNOWN_NS = 20_000_000_000  # or this long;
SETUP_FACTOR = 10  # ten times that when it has made an optimizer
FEWEST_LOADS = 8  # batches of a process that ends and never did more than fetch: fewer are a look
UNKNOWN_BACKWARDS = 200  # backwards without an optimizer until none is expected
# Steps of one optimizer for one batch: WGAN's critic takes 5. More is a batch fetched once and
# trained on for long, unless this process has been seen fetching for its steps.
REPEATS, REPEATS_FED = 20, 1000
OTHER_THREAD_CALLS = 8  # calls on other threads alone until the training is taken to run there
_CALLS = frozenset({wire.FORWARD, wire.BACKWARD, wire.OPTIMIZER})
_NO_BATCH = wire.F_ITER_START | wire.F_ITER_END | wire.F_RAISED


class StepBuilder(StepMaker):
    """One a process. Feed it the process's spans by end time; a loader worker gives batches only.

    Set `rank` when it becomes known, and `optimizer_known` when the process told of an optimizer.
    """

    def __init__(
        self,
        pid: int,
        rank: int | None = None,
        *,
        optimizer_known: bool = False,
        first_step: int = 0,
    ) -> None:
        super().__init__(pid, rank, first_step)
        self.optimizer_known = optimizer_known
        # for the whole process
        self._inline = False  # trains without fetching
        self._doubted = False  # it was taken for one that only infers, once
        self._fed_steps = 0
        self._saved = False  # a checkpoint since the last forward: a sync belongs to it
        self._thread = 0  # F_OTHER_THREAD when the training runs there
        self._others: deque[Span] = deque(maxlen=2048)  # timeline spans of the other side
        self._other_calls = 0
        self._collates: dict[int, tuple[int, int]] = {}  # worker: start, ns

    @property
    def rank(self) -> int | None:
        return self._rows.rank

    @rank.setter
    def rank(self, rank: int | None) -> None:
        self._rows.rank = rank

    @property
    def stepped(self) -> bool:
        """Whether the process has begun to train, to infer or to fetch."""
        return bool(self._seen & MAKERS)

    # -- in and out --------------------------------------------------------------------------

    def feed(self, spans: Iterable[Span]) -> Built:
        """Takes new spans; gives the rows that became certain."""
        for span in spans:
            kind = span[2]
            if kind in PHASES:
                if kind not in self._seen:
                    self._seen |= {kind}
                if span[3] & wire.F_OTHER_THREAD == self._thread:
                    self._timeline(span)
                else:
                    self._other_thread(span)
            else:
                self._aside(span)
        out, self._out = self._out, Built([], [])
        return out

    def finish(self) -> Built:
        """Call it when the process is gone: tells the last steps."""
        if self._other_calls and not (self._seen_calls() or self._held):
            self._switch_thread()
        if self.mode == "unknown" and self._spans:
            self._decide(self._likely())
        if self._number == 0 and max(self._applied.values(), default=0) > 2:
            self._go_inline()  # one batch, trained on all the time
        self._finish_step()
        self._tell_held()
        out, self._out = self._out, Built([], [])
        return out

    # -- spans that are no part of the timeline ------------------------------------------------

    def _aside(self, span: Span) -> None:
        start, end, kind, flags, ident, value = span
        if kind == wire.FETCH:
            self._worker_batch(span)
        elif kind == wire.COLLATE:
            begun, ns = self._collates.get(ident, (start, 0))
            self._collates[ident] = (begun, ns + end - start)
        elif kind == wire.BATCH:
            self._rows.sizes.setdefault(ident, []).append((end, value))
        elif kind == wire.SAMPLES:
            self._rows.told_samples.append((end, value))
        elif kind == wire.FSYNC:
            if self._saved and flags & wire.F_OTHER_THREAD == self._thread:
                self._timeline((start, end, wire.CHECKPOINT, flags, 0, 0))
        elif kind == wire.GC:
            self._seen |= {kind}
            self._rows.gc.append((start, end))
        elif kind == wire.STEP_MARK:
            self._mark(end)
        elif kind == wire.DEVICE:
            self._rows.device.append((start, ident, end - start))
        elif kind == wire.CAPTURE:
            self._rows.capture(start, end)

    def _worker_batch(self, span: Span) -> None:
        start, end, _, _, ident, value = span
        begun, collate = self._collates.pop(ident, (0, None))
        if begun < start:
            collate = None
        self._out.worker_batches.append({
            "t_ns": start, "pid": self._rows.pid, "worker": ident - 1, "fetch_ns": end - start,
            "collate_ns": collate, "cpu_ns": value * 1000,
        })  # fmt: skip

    def _other_thread(self, span: Span) -> None:
        """Kept aside, until it shows that all the work is done there."""
        self._others.append(span)
        if span[2] in _CALLS:
            self._other_calls += 1
            if self._other_calls >= OTHER_THREAD_CALLS:
                self._switch_thread()

    def _switch_thread(self) -> None:
        self._thread ^= wire.F_OTHER_THREAD
        others, self._others = self._others, deque(maxlen=2048)
        self._other_calls = 0
        self._finish_step()
        self._spans = []
        self._reset()
        for span in others:
            self._timeline(span)

    # -- borders -------------------------------------------------------------------------------

    def _timeline(self, span: Span) -> None:
        kind = span[2]
        if kind in _CALLS:
            self._other_calls = 0
            if self._others:
                self._others.clear()
            if self.mode == "loading":
                self._decide("unknown")
        if self.mode == "unknown":
            self._learn(span)
        elif kind == wire.DATA_WAIT:
            self._fetch(span)
        elif kind == wire.FORWARD:
            self._forward(span)
        elif kind == wire.BACKWARD:
            self._backward(span)
        elif kind == wire.OPTIMIZER:
            self._optimizer(span)
        else:
            self._saved |= kind == wire.CHECKPOINT
            self._spans.append(span)
        if len(self._spans) >= KEPT_SPANS:
            self._sum_up()

    def _learn(self, span: Span) -> None:
        """Finds out what the process does."""
        kind = span[2]
        self._spans.append(span)
        if kind == wire.CHECKPOINT:
            self._saved = True
        elif kind == wire.FORWARD:
            self._saved = False
            self._forwards += 1
            if not (self._backwards or self._doubted) and self._only_infers(span):
                self._decide("inference")
        elif kind == wire.BACKWARD:
            self._backwards += 1
            if self._backwards >= UNKNOWN_BACKWARDS:
                self._decide("backward")
        elif kind == wire.OPTIMIZER and not span[3] & wire.F_RAISED:
            self._decide("train")
        elif kind == wire.DATA_WAIT and self._only_loads(span):
            self._decide("loading")
        elif kind != wire.DATA_WAIT and not self._seen_calls() and len(self._spans) > 1024:
            del self._spans[:512]  # set-up work: no step begins there

    def _only_infers(self, span: Span) -> bool:
        factor = SETUP_FACTOR if self.optimizer_known else 1
        since = self._spans[0][0]
        return self._forwards >= UNKNOWN_FORWARDS * factor or (
            self._forwards > 2 and span[1] - since >= UNKNOWN_NS * factor
        )

    def _only_loads(self, span: Span) -> bool:
        if self._seen & _CALLS or len(self._spans) < UNKNOWN_FORWARDS:
            return False
        return span[1] - self._spans[0][0] >= UNKNOWN_NS * (
            SETUP_FACTOR if self.optimizer_known else 1
        )

    def _likely(self) -> Mode:
        """What a process does that has not shown it and ends, or has done too much to wait on."""
        if self._backwards:
            return "backward"
        batches = sum(s[2] == wire.DATA_WAIT and not s[3] & _NO_BATCH for s in self._spans)
        loads = not self._seen & _CALLS and batches >= FEWEST_LOADS
        return "loading" if loads else "inference"

    def _seen_calls(self) -> bool:
        return any(span[2] in MAKERS for span in self._spans)

    def _decide(self, mode: Mode) -> None:
        self.mode = mode
        self._replay(self._spans)

    def _replay(self, spans: list[Span]) -> None:
        self._spans = []
        self._reset()
        for span in spans:
            self._timeline(span)

    def _fetch(self, span: Span) -> None:
        if self.mode == "train":
            ends = bool(self._applied)
        elif self.mode == "backward":
            ends = self._backwards > 0
        elif self.mode == "loading":
            ends = span[4] in self._called or bool(self._called and span[3] & _NO_BATCH)
        else:
            ends = self.mode == "inference" and bool(self._called)
        if ends:
            self._fed_steps += self._fed
            self._close(span[0])
        if not span[3] & _NO_BATCH:
            self._waiting = True
            if self.mode == "loading":
                self._called[span[4]] = 1
                self._done_at = span[1]
        self._spans.append(span)

    def _forward(self, span: Span) -> None:
        if self.mode == "inference" and calls_of(span) > 1:
            for one in split(span):
                self._forward(one)
            return
        start, _, _, flags, root, _ = span
        self._saved = False
        training = flags & wire.F_GRAD and not flags & wire.F_RAISED
        if self.mode == "inference":
            if root in self._called:
                self._close(start)
            self._called[root] = 1
            self._done_at = span[1]
        elif self.mode == "backward" and training:
            calls = self._called.get(root, 0)
            if self._backwards and calls and not self._feeds(calls):
                self._close(start)
                calls = 0
            self._called[root] = calls + 1
        self._use_batch(bool(flags & (wire.F_GRAD | wire.F_TRAINING)))
        self._spans.append(span)

    def _backward(self, span: Span) -> None:
        self._use_batch(True)
        self._backwards += 1
        self._spans.append(span)
        if self.mode == "inference":
            self._doubt()
        elif self.mode == "backward":
            self._done_at = span[1]

    def _optimizer(self, span: Span) -> None:
        _, end, _, flags, ident, _ = span
        if flags & wire.F_RAISED:
            self._spans.append(span)
            return
        if self.mode in ("inference", "backward"):
            self._spans.append(span)
            self._decide("train")
            return
        self._use_batch(True)
        steps = self._applied.get(ident, 0)
        if steps and self.mode == "train":
            if not self._feeds(steps):
                self._close(self._done_at or end)
                steps = 0
            elif steps >= (REPEATS_FED if self._fed_steps > 1 else REPEATS):
                self._spans.append(span)
                self._go_inline()
                return
        self._applied[ident] = steps + 1
        self._done_at = end
        self._spans.append(span)

    def _feeds(self, repeats: int) -> bool:
        """Whether the steps of this process end at fetches, not where something is repeated."""
        return self._fed and not self._inline and repeats <= REPEATS_FED

    def _use_batch(self, training: bool) -> None:
        if self._waiting:
            self._waiting = False
            self._fed |= training

    def _doubt(self) -> None:
        """A process that only inferred trains after all."""
        self.mode, self._doubted = "unknown", True
        spans, self._spans = self._spans, []
        self._reset()
        for span in spans:
            self._timeline(span)

    def _go_inline(self) -> None:
        self._inline = True
        self._replay(self._spans)

    def _mark(self, t_ns: int) -> None:
        held = self._held
        if self.mode != "marked" and held and self._start == held.end:
            # The first mark: the step before was cut by another rule and is a part of this one
            early, self._tally = self._tally, held.tally
            add(self._tally, early)
            self._start, self._held = held.start, None
            self._number -= 1
        self.mode = "marked"
        if self._start is None and not self._seen_calls():
            self._spans = []
            self._start = t_ns
        else:
            self._close(t_ns)

    def _sum_up(self) -> None:
        """Bounds what a long step keeps. The newest part stays: a parent may still come."""
        start = self._begin()
        if self.mode == "unknown":
            self._decide(self._likely())
            return
        half = len(self._spans) // 2
        cut = next(
            (i for i in range(half, len(self._spans)) if self._spans[i][2] == wire.DATA_WAIT), half
        )
        border = self._spans[cut][0]
        early = [span for span in self._spans[:cut] if span[1] <= border]
        late, self._spans = self._spans[len(early) :], early
        if start is not None and border > start + self._tally.total():
            self._sum(start, border)
        self._spans = late
