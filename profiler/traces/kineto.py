"""A captured window of torch.profiler as `op` rows: time, FLOPs, bytes by operator and shape.

Events nest on a thread; an operator's self time is its duration less its children's. FLOPs and
bytes stand on the operator that does the arithmetic, never on its wrappers too (flops.py). Rows:

    (op)                 phase forward | backward | optimizer; flops NULL: not in the tables
    (kernel)             the same of a kernel whose operator is in no table
    wrappers             flops = bytes = 0: their self time is dispatch
    "(data loader)"      phase input: time in the loader's next(), whose operators are left out
    "(no operator)"      phase gap: time of the window in which the training thread ran none: Python
    "(fused kernels)"    flops 0, bytes NULL: kernels of torch.compile, whose sizes nobody tells
    HtoD, DtoH           phase copy: copies of the device; their time stands with operators, too
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ...hooks import wire
from .calls import Work, dtype_of
from .chrome import Args, BadTrace, Event, Trace, read_trace
from .flops import work
from .kernels import by_name, copy_name, short_name
from .saved import rows as activation_rows

LOADER_ROW = "(data loader)"
GAP_ROW = "(no operator)"
COPY_PHASE = "copy"
# torch.compile's own kernels on a CPU have no events: they are the gaps between the others
COMPILED_GRAPH = "## Call CompiledFxGraph"
FUSED_ROW, COMPILED_ROW = "(fused kernels)", "(compiled code)"
FUSED_US = 25.0  # a shorter gap is the compiled code's own Python, not a kernel
CPU_CATEGORIES = {"cpu_op", "Operator", "user_annotation", "python_function"}
RUNTIME_CATEGORIES = {"cuda_runtime", "cuda_driver", "Runtime", "hip_runtime"}
KERNEL_CATEGORIES = {"kernel", "Kernel", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset"}
MAX_CAPTURE_BYTES = 256 << 20
EPSILON_US = 0.002  # rounding of times that are written with three decimals


class Writer(Protocol):
    def append(self, table: str, rows: Sequence[Any], /) -> Any: ...


@dataclass(slots=True)
class Node:
    """One operator call or annotation on a thread; times in us."""

    name: str
    start: float
    end: float
    args: Args | None
    phase: str
    annotation: bool
    children_us: float = 0.0
    children: int = 0
    work: Work | None = None
    below_flops: float = 0.0  # booked on operators below this one
    below_bytes: float = 0.0
    moved_below: bool = False  # an operator of unknown size is below
    device_us: float = 0.0
    kernels: dict[str, list[float]] | None = None  # of unknown work: name -> calls, us
    input: bool = False
    told_until: float = 0.0  # of a compiled graph: where its last child ended
    fused_us: float = 0.0
    fused: int = 0

    @property
    def compiled(self) -> bool:
        return self.name.startswith(COMPILED_GRAPH)

    def run_until(self, t_us: float) -> None:
        """In a compiled graph: nothing was told since the last child, so its own kernels ran."""
        gap = t_us - self.told_until
        if gap > FUSED_US:
            self.fused_us += gap
            self.fused += 1

    def launched(self, kernel: Event) -> None:
        """Books a kernel; on its own where the operator does not tell what it does."""
        known = self.work is not None and self.work.flops is not None
        if known or by_name(self.name) is not None:
            self.device_us += kernel.dur
            return
        self.kernels = {} if self.kernels is None else self.kernels
        entry = self.kernels.setdefault(short_name(kernel.name), [0, 0.0])
        entry[0] += 1
        entry[1] += kernel.dur

    @property
    def self_us(self) -> float:
        return max(0.0, self.end - self.start - self.children_us)


@dataclass
class Window:
    """What one trace says about the captured window."""

    nodes: list[Node] = field(default_factory=list)
    window_us: float = 0.0
    gap_us: float = 0.0
    loader_us: float = 0.0
    kernels: int = 0
    launchers: dict[Any, Node] = field(default_factory=dict)  # by correlation id
    copies: dict[str, list[float]] = field(default_factory=dict)  # name: calls, us, bytes
    base_ns: int = 0
    start_us: float = 0.0


def _is_annotation(event: Event) -> bool:
    name = event.name
    if name.startswith(COMPILED_GRAPH):
        return False
    return event.cat in ("user_annotation", "python_function") or name.startswith(
        ("enumerate(DataLoader)", "Optimizer.", "ProfilerStep#")
    )


def _phase(name: str, parent: str) -> str:
    if parent == "input" or name.startswith("enumerate(DataLoader)"):
        return "input"
    if name.startswith(("Optimizer.step", "Optimizer.zero_grad")):
        return "optimizer"
    if name.startswith("autograd::engine::evaluate_function"):
        return "backward"
    return parent


def analyse(trace: Trace, parameters: int | None = None) -> Window:
    """Nests the events of every host thread and books work and self time."""
    window = Window(base_ns=trace.base_ns)
    threads: dict[tuple[Any, str], list[Event]] = {}
    for event in trace.events:
        if event.cat in CPU_CATEGORIES or event.cat in RUNTIME_CATEGORIES:
            threads.setdefault((event.pid, str(event.tid)), []).append(event)
    if not threads:
        return window
    main = max(threads, key=lambda key: _weight(threads[key]))
    for key, events in threads.items():
        window.nodes += _nest(events, parameters, window, is_main=key == main)
    _book_kernels(trace.events, window)
    spans = [e for e in trace.events if e.cat == "Trace"]
    ours = threads[main]
    first = min(e.ts for e in spans or ours)
    last = max(e.ts + e.dur for e in spans or ours)
    window.start_us, window.window_us = first, max(0.0, last - first)
    busy = sum(n.self_us for n in window.nodes if not n.annotation and n.phase != "input")
    window.gap_us = max(0.0, window.window_us - window.loader_us - busy)
    return window


def _weight(events: list[Event]) -> tuple[int, float]:
    """The training thread has the step, optimizer and loader marks, else the most operator time."""
    marks = sum(1 for e in events if e.name.startswith(("Optimizer.step", "ProfilerStep#")))
    return min(marks, 1), sum(e.dur for e in events)


def _nest(
    events: list[Event], parameters: int | None, window: Window, *, is_main: bool
) -> list[Node]:
    events.sort(key=lambda e: (e.ts, -e.dur))
    stack: list[Node] = []
    done: list[Node] = []

    def close(until: float) -> None:
        while stack and stack[-1].end <= until + EPSILON_US:
            node = stack.pop()
            if node.compiled:
                node.run_until(node.end)
            _claim(node, parameters)
            done.append(node)
            if stack:
                parent = stack[-1]
                parent.told_until = node.end
                parent.children_us += node.end - node.start
                parent.children += 1
                _hand_up(node, parent)

    for event in events:
        close(event.ts)
        if event.cat in RUNTIME_CATEGORIES:
            if stack and event.args is not None and not stack[-1].annotation:
                window.launchers[event.args.correlation] = stack[-1]
            continue
        parent = stack[-1].phase if stack else "forward"
        phase = _phase(event.name, parent)
        end = event.ts + event.dur
        if stack and end > stack[-1].end:
            end = stack[-1].end  # a child never outlives its parent: clock rounding
        if phase == "input" and parent != "input" and is_main:
            window.loader_us += event.dur
        if stack and stack[-1].compiled:
            stack[-1].run_until(event.ts)
        node = Node(event.name, event.ts, end, event.args, phase, _is_annotation(event))
        node.told_until = event.ts
        stack.append(node)
    close(float("inf"))
    return done


def _claim(node: Node, parameters: int | None) -> None:
    if node.annotation or node.phase == "input":
        return
    if node.compiled:
        node.work = Work(0.0, None, "fused")
        return
    args = node.args or Args()
    found = work(
        node.name, _list(args.dims or args.dims_old), _strings(args.types),
        _strings(args.concrete), parameters,
    )  # fmt: skip
    if found is not None and (found.always or not _counted_below(node, found)):
        node.work = found
    elif node.children or _is_wrapper(node.name):
        node.work = Work(0.0, 0.0, "wrapper")


def _counted_below(node: Node, found: Work) -> bool:
    """Whether the operators below did this work; a converted scalar argument is no such thing."""
    if found.kind == "gemm" and found.flops:
        return node.below_flops > 0.5 * found.flops
    if found.bytes is None or (node.moved_below and found.flops == 0):
        return node.moved_below or node.below_bytes > 0
    return node.below_bytes > 0.5 * found.bytes


def _hand_up(node: Node, parent: Node) -> None:
    own = node.work or Work(None, None)
    parent.below_flops += node.below_flops + (own.flops or 0.0)
    parent.below_bytes += node.below_bytes + (own.bytes or 0.0)
    parent.moved_below |= node.moved_below or (own.kind == "move" and own.bytes is None)


def _is_wrapper(name: str) -> bool:
    return name.startswith("autograd::") or name.endswith(
        ("Backward0", "Backward1", "AccumulateGrad")
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: Any) -> list[str]:
    return [v if isinstance(v, str) else "" for v in value] if isinstance(value, list) else []


def _book_kernels(events: list[Event], window: Window) -> None:
    """Device time goes to the operator that launched it: by correlation, else by id."""
    by_id: dict[Any, Node] = {}
    for node in window.nodes:
        if node.args is not None and node.args.external is not None and not node.annotation:
            by_id[node.args.external] = node
    for event in events:
        if event.cat not in KERNEL_CATEGORIES:
            continue
        window.kernels += 1
        args = event.args or Args()
        if (copy := copy_name(event.name)) is not None:
            entry = window.copies.setdefault(copy, [0, 0.0, 0.0])
            moved = args.bytes if isinstance(args.bytes, int | float) else 0.0
            window.copies[copy] = [entry[0] + 1, entry[1] + event.dur, entry[2] + moved]
        launcher = window.launchers.get(args.correlation) or by_id.get(
            args.external if args.external is not None else args.external_old
        )
        if launcher is None:
            continue
        if launcher.work is not None and launcher.work.kind == "wrapper":
            launcher.work = None  # it launches kernels of its own: unknown work, not none
        launcher.launched(event)


def op_rows(
    window: Window, *, capture: int, pid: int, steps: int, t_ns: int | None = None
) -> list[dict[str, Any]]:
    """The window as rows of table `op`."""
    common = {
        "capture": capture, "pid": pid, "steps": steps,
        "t_ns": t_ns if t_ns is not None else window.base_ns + int(window.start_us * 1000),
        "window_ns": int(window.window_us * 1000),
    }  # fmt: skip
    sums: dict[tuple[str, str, str, str | None], list[Any]] = {}
    for node in window.nodes:
        if node.annotation or node.phase == "input":
            continue
        if node.compiled:
            _add_compiled(sums, node)
        else:
            _add(sums, node)
        _add_kernels(sums, node)
    rows = []
    for (name, phase, shapes, dtype), (calls, flops, moved, host, device) in sums.items():
        rows.append(common | {
            "name": name, "phase": phase, "shapes": shapes, "dtype": dtype, "calls": calls,
            "flops": flops, "bytes": moved,
            "time_ns": int((device if window.kernels else host) * 1000),
            "host_ns": int(host * 1000),
        })  # fmt: skip
    for name, phase, spent in (
        (LOADER_ROW, "input", window.loader_us),
        (GAP_ROW, "gap", window.gap_us),
    ):
        rows.append(common | {
            "name": name, "phase": phase, "shapes": "", "dtype": None, "calls": 1, "flops": 0.0,
            "bytes": 0.0, "time_ns": int(spent * 1000), "host_ns": int(spent * 1000),
        })  # fmt: skip
    for name, (calls, spent, moved) in window.copies.items():
        rows.append(common | {
            "name": name, "phase": COPY_PHASE, "shapes": "", "dtype": None, "calls": int(calls),
            "flops": 0.0, "bytes": moved, "time_ns": int(spent * 1000), "host_ns": 0,
        })  # fmt: skip
    return rows


def _add(sums: dict[tuple[str, str, str, str | None], list[Any]], node: Node) -> None:
    args = node.args or Args()
    types = _strings(args.types)
    shapes = json.dumps(_list(args.dims or args.dims_old), separators=(",", ":"))
    key = (node.name, node.phase, shapes, dtype_of(types))
    entry = sums.get(key)
    flops = node.work.flops if node.work else None
    moved = node.work.bytes if node.work else None
    if entry is None:
        sums[key] = [1, flops, moved, node.self_us, node.device_us]
        return
    entry[0] += 1
    entry[1] = None if entry[1] is None or flops is None else entry[1] + flops
    entry[2] = None if entry[2] is None or moved is None else entry[2] + moved
    entry[3] += node.self_us
    entry[4] += node.device_us


def _add_kernels(sums: dict[tuple[str, str, str, str | None], list[Any]], node: Node) -> None:
    for name, (calls, spent) in (node.kernels or {}).items():
        entry = sums.setdefault((name, node.phase, "", None), [0, None, None, 0.0, 0.0])
        entry[0] += int(calls)
        entry[4] += spent


def _add_compiled(sums: dict[tuple[str, str, str, str | None], list[Any]], node: Node) -> None:
    """Its kernels, and the code that calls them: dispatch."""
    for name, calls, moved, spent in (
        (FUSED_ROW, node.fused, None, node.fused_us),
        (COMPILED_ROW, 1, 0.0, max(0.0, node.self_us - node.fused_us)),
    ):
        entry = sums.setdefault((name, node.phase, "", None), [0, 0.0, moved, 0.0, 0.0])
        entry[0] += calls
        entry[3] += spent


# --- the spool's captures --------------------------------------------------------------------


def import_captures(spool: Path, writer: Writer) -> list[str]:
    """Writes every capture of a spool folder into table `op`; returns what could not be read."""
    problems = []
    for number, (pid, fact, parameters) in enumerate(_captures(spool)):
        name = str(fact.get("file") or "")
        path = spool / Path(name).name  # a name from inside a file never leaves the spool folder
        try:
            trace = read_trace(path, MAX_CAPTURE_BYTES)
        except (OSError, BadTrace) as error:
            problems.append(f"capture {path.name}: {error}")
            continue
        window = analyse(trace, parameters)
        steps = fact["steps"] if isinstance(fact.get("steps"), int) else 1
        rows = op_rows(window, capture=number, pid=pid, steps=steps)
        if window.nodes:
            writer.append("op", rows)
            start_ns = window.base_ns + int(window.start_us * 1000)
            writer.append("event", activation_rows(window, pid=pid, steps=steps, t_ns=start_ns))
        else:
            problems.append(f"capture {path.name}: no operator in it")
    return problems


def _captures(spool: Path) -> Iterable[tuple[int, dict[str, Any], int | None]]:
    """(pid, capture fact, parameters of the process's optimizers) for every capture."""
    for path in sorted(spool.glob("*.facts")):
        facts = []
        for line in path.read_bytes()[: 4 << 20].splitlines():
            try:
                fact = json.loads(line)
            except ValueError:
                continue
            if isinstance(fact, dict):
                facts.append(fact)
        held = [f.get("parameters") for f in facts if f.get("k") == wire.FACT_OPTIMIZER]
        parameters = sum(p for p in held if isinstance(p, int)) or None
        pid = path.name.partition("-")[0]
        for fact in facts:
            if fact.get("k") == wire.FACT_CAPTURE and pid.isdigit():
                yield int(pid), fact, parameters
