"""Reads a run once into a RunView. All queries of the diagnosis stand here and in sources.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ...hooks import wire
from . import hardware, outside, presumed, ranks, roofline, shares, sources, stacks, steady, thinned
from .capacity import process_waits
from .evened import evened
from .model import (
    PHASES,
    Loader,
    OpRow,
    RunView,
    StackShares,
    Steady,
    Step,
)  # fmt: skip


class Reader(Protocol):
    """What the diagnosis needs of storage's RunReader."""

    def rows(self, sql: str, params: Sequence[Any] = (), /) -> list[tuple[Any, ...]]: ...


def load(reader: Reader, now_ns: int, others: Sequence[Reader] = ()) -> RunView:
    """Everything a rule needs, of a live, finished, hookless or empty run.

    `others`: the run files of the same job's other nodes. What is not about steps (host, devices,
    operators, stacks) is that of the node with the slowest rank.
    """
    readers = (reader, *others)
    made, counts = _steps_by_peer(readers)
    runs = [sources.run_row(one) for one in readers]
    imported = bool(runs[0]["settings"] and runs[0]["settings"].get("imported"))
    parts = {peer: steady.find(found, settled=imported) for peer, found in made.items()}
    path = ranks.slowest_path(parts)
    node, critical = path.critical or (0, None)
    reader, hosts = evened(readers[node]), _hosts(runs)
    run = runs[node] | {"host": _named(hosts)}
    processes = sources.processes(reader)
    table = ranks.rows(parts, made, path, hosts, counts)
    steps = made[path.critical] if path.critical is not None else []
    total = counts[path.critical] if path.critical is not None else 0
    judged = path.steady
    if total > len(steps) and critical is not None:
        exact = path.compared is None  # a path through several ranks is not one query
        stands_for = thinned.whole(reader, critical, judged) if exact else None
        judged = replace(judged, whole=stands_for or thinned.scaled(judged, total))
    span = _span(parts[path.critical] if path.critical is not None else Steady(), run, now_ns)
    facts = _facts(processes, critical)
    events = sources.events(reader)
    devices = hardware.load(reader, span, events, imported=imported, possible=_may_use_devices(run))
    used = [d for d in devices if d.used]
    ceilings = sources.ceilings(reader, used)
    sampled = _stack_rows(reader, span)
    seen = None
    if not made and not imported and not (run["settings"] or {}).get("daemon"):
        critical = outside.training_process(sampled, processes)
        seen = outside.estimate(reader, critical)
    view = RunView(
        run=run, steps=tuple(steps),
        steady=judged, shares={}, observed=_observed(steps),
        split=None, ceilings=ceilings,
        loaders=_loaders(facts), optimizers=_all(facts, wire.FACT_OPTIMIZER),
        roots=_all(facts, wire.FACT_ROOT), workers=sources.workers(reader, span, processes),
        host=sources.host(reader, span), job=sources.job(reader, span, processes, critical),
        device=sources.device(reader, span, used), devices=devices, gaps=sources.gaps(reader),
        stacks=_stacks(sampled, critical),
        worker_stacks=_worker_stacks(sampled, processes), ranks=table,
        node=node, compared=path.compared, parallel=_all(facts, wire.FACT_PARALLEL),
        samples_times=_samples_times(parts, path, facts, run),
        busy_threads=_busy_threads(sampled, critical), events=events,
        notes=(*_notes(facts, processes), *ranks.clock_notes(table)), outside=seen,
        tracers=tuple(dict.fromkeys(
            n for f in _all(facts, wire.FACT_TRACED) for n in _names(f.get("by")))),
        copied_in_data=next(
            (str(f.get("where")) for f in _all(facts, wire.FACT_COPY_IN_DATA)), None),
        emptied=_emptied(facts), main_threads=_threads(facts, run), allocator=_allocator(facts),
        failures=_failures(processes), now_ns=now_ns,
        live=run["ended_ns"] is None and bool(getattr(reader, "live", False)),
        imported=imported, steps_total=total,
        epoch_starts=tuple(thinned.epochs(reader, critical)) if critical is not None else (),
    )  # fmt: skip
    if seen is not None:
        return replace(view, shares=seen.shares)
    return with_shares(view, sources.ops(reader, critical))


def _samples_times(
    parts: Mapping[ranks.Peer, Steady],
    path: ranks.Path,
    facts: Sequence[dict[str, Any]],
    run: dict[str, Any],
) -> float | None:
    """Ranks of DDP have batches of their own; others may work on the same one (tensor parallel)."""
    given = (run["settings"] or {}).get("samples_per_step")
    if given or not _all(facts, wire.FACT_PARALLEL):
        return 1.0
    return ranks.samples_times(parts, path.steady)


def _may_use_devices(run: dict[str, Any]) -> bool:
    """Whether the job's torch can use a GPU, as far as is known."""
    environment = run.get("environment") or {}
    return not environment.get("torch") or bool(environment.get("cuda"))


def with_shares(view: RunView, ops: Sequence[OpRow]) -> RunView:
    """The view with captured operators and shares worked in; pure."""
    steps = view.steady.steps
    if not steps:
        return view
    has_loader = bool(view.loaders) or any(s.data_wait_ns is not None for s in steps)
    view = replace(view, stacks=_idle_is_input(view, has_loader))
    division = shares.Division(None, view.device, view.stacks, has_loader, None)
    sums = list(view.steady.whole.sums) if view.steady.whole else shares.totals(steps)
    before, _, _ = shares.divide(sums, division)
    total = sum(sums) or 1.0
    loose = {name: sums[shares.RAW.index(name)] for name in ("work", "before_forward", "uncovered")}
    moved = sum(before.get(n, 0.0) - sums[shares.RAW.index(n)] / total for n in shares.MOVED)
    blind = shares.blind(loose["before_forward"] / total, division)
    work_s = (sum(loose.values()) / total - moved - blind) * (view.step_s or 0.0)
    threads = view.main_threads or view.host.cpus
    known = view.ceilings
    if known is not None and view.on_cpu and presumed.measured_nothing(known, threads):
        view = replace(view, ceilings=None)
    if view.ceilings is not None:
        split = roofline.split(ops, view.ceilings, work_s)
    else:
        here = view.on_cpu and not view.imported  # who recorded a trace on what is not known
        split = presumed.split(ops, threads, work_s) if here else None
    counters = view.device.dram_share is not None
    division = replace(
        division,
        split=split,
        memory_fraction=_memory_fraction(view, split),
        unknown_fraction=split.unknown if split is not None and not counters else 0.0,
    )
    found, by_stacks, unexplained = shares.divide(sums, division)
    duration = view.steady.duration_ns or 1
    return replace(
        view, split=split, shares=found, input_by_stacks=by_stacks, uncovered_share=unexplained,
        iterator_share=_column_share(steps, "iterator_ns", duration),
        gc_share=_column_share(steps, "gc_ns", duration),
        division=division, matrix_rows=roofline.matrix_rows(ops), has_capture=bool(ops),
        synchronisations=roofline.synchronisations(ops), copies=roofline.copies(ops),
    )  # fmt: skip


def _idle_is_input(view: RunView, has_loader: bool) -> StackShares:
    """A loop without a loader whose process is idle in the user's own code waits for its data.

    Not so where that code was the garbage collector, which is no wait however few cores it got.
    """
    found, cores = view.stacks, view.job.main_cpu_cores
    own = found.shares.get("user", 0.0)
    if (
        has_loader
        or cores is None
        or not own
        or not process_waits(view, cores, 1.0, view.job.main_running)
    ):
        return found
    collecting = _column_share(view.steady.steps, "gc_ns", view.steady.duration_ns or 1) or 0.0
    if collecting > own / 2:
        return found
    parts = dict(found.shares)
    parts["input"] = parts.get("input", 0.0) + parts.pop("user")
    hot = {k: v for k, v in found.hot.items() if k != "user"}
    hot["input"] = [*found.hot.get("input", []), *found.hot.get("user", [])]
    return replace(found, shares=parts, hot=hot)


def _memory_fraction(view: RunView, split: Any) -> float | None:
    """Of device-busy time, the part that memory limits: counters first, then captured operators."""
    use = view.device
    if use.dram_share is not None and (use.tensor_share is not None or use.sm_share is not None):
        arithmetic = max(use.tensor_share or 0.0, (use.sm_share or 0.0) * 0.5)
        both = use.dram_share + arithmetic
        return use.dram_share / both if both > 0 else None
    if split is not None and split.compute + split.memory > 0:
        return float(split.memory / (split.compute + split.memory))
    if use.memory_busy_share is not None and use.busy_share and not _draws_little(view):
        # The memory controller's busy time is a proxy: above half of the kernels' time it limits
        return min(1.0, use.memory_busy_share / use.busy_share)
    return None


# Of the power limit: one small kernel after the other keeps a device "busy" and draws no more
LITTLE_POWER = 0.4


def _draws_little(view: RunView) -> bool:
    """Whether utilisation says busy and the power says that hardly anything works."""
    draws = [
        d.power_w / limit for d in view.used_devices
        if d.power_w is not None and (limit := d.number("power_limit_w"))
    ]  # fmt: skip
    return bool(draws) and max(draws) < LITTLE_POWER


def _column_share(steps: Sequence[Step], column: str, duration: int) -> float | None:
    values = [getattr(s, column) for s in steps]
    known = [v for v in values if v is not None]
    return sum(known) / duration if known else None


# --- pieces ------------------------------------------------------------------------------------


def _steps_by_peer(
    readers: Sequence[Reader],
) -> tuple[dict[ranks.Peer, list[Step]], dict[ranks.Peer, int]]:
    """The steps that were read, and how many each process made."""
    several = sum(len(one.rows("SELECT DISTINCT pid FROM step")) for one in readers)
    taken = [thinned.read(one, processes=several) for one in readers]
    made = {
        ranks.Peer(node, pid): steps
        for node, one in enumerate(taken) for pid, steps in one.steps.items()
    }  # fmt: skip
    counts = {
        ranks.Peer(node, pid): count
        for node, one in enumerate(taken) for pid, count in one.counts.items()
    }  # fmt: skip
    return made, counts


def _hosts(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The nodes' names; two run files of one host are told apart."""
    names = [str(run["host"] or f"node {i}") for i, run in enumerate(runs)]
    return [
        name if names.count(name) == 1 else f"{name} #{names[:i].count(name) + 1}"
        for i, name in enumerate(names)
    ]


def _named(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
    return ", ".join(hosts[:3]) + more


def _span(part: Steady, run: dict[str, Any], now_ns: int) -> tuple[int, int]:
    """From and to, UTC ns, of what is judged: the steady steps, else the whole run."""
    if part.steps:
        last = part.steps[-1]
        return part.steps[0].t_ns, last.t_ns + last.duration_ns
    return run.get("started_ns") or 0, run.get("ended_ns") or now_ns


def _observed(steps: Sequence[Step]) -> frozenset[str]:
    """Phases that a hook saw at least once in the critical process."""
    seen = {
        phase for phase in PHASES
        if any(getattr(s, f"{phase}_ns") is not None for s in steps)
    }  # fmt: skip
    return frozenset(seen)


def _facts(processes: Sequence[dict[str, Any]], critical: int | None) -> list[dict[str, Any]]:
    chosen = [p for p in processes if p["pid"] == critical] or [
        p for p in processes if p["role"] in ("main", "rank")
    ]
    return [fact for p in chosen for fact in p["facts"]]


def _all(facts: Sequence[dict[str, Any]], kind: str) -> tuple[dict[str, Any], ...]:
    return tuple(f for f in facts if f.get("k") == kind)


def _loaders(facts: Sequence[dict[str, Any]]) -> tuple[Loader, ...]:
    def number(value: Any) -> int | None:
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(value: Any) -> bool | None:
        return value if isinstance(value, bool) else None

    return tuple(
        Loader(
            num_workers=number(f.get("num_workers")), batch_size=number(f.get("batch_size")),
            prefetch=number(f.get("prefetch")),
            persistent=flag(f.get("persistent")), pinned=flag(f.get("pin_memory")),
            context=str(f["context"]) if f.get("context") else None,
            length=number(f.get("length")), where=str(f["where"]) if f.get("where") else None,
        )
        for f in _all(facts, wire.FACT_LOADER)
    )  # fmt: skip


def _threads(facts: Sequence[dict[str, Any]], run: dict[str, Any]) -> int | None:
    """Threads that torch was told to use within an operator."""
    told = [f.get("threads") for f in (*_all(facts, wire.FACT_ROOT), *_all(facts, wire.FACT_TORCH))]
    known = next((n for n in told if isinstance(n, int) and n > 0), None)
    variables = (run.get("environment") or {}).get("variables") or {}
    text = str(variables.get("OMP_NUM_THREADS", "")).split(",")[0].strip()
    return known or (int(text) if text.isdecimal() and int(text) > 0 else None)


def _names(value: Any) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []


def _emptied(facts: Sequence[dict[str, Any]]) -> tuple[int, str | None] | None:
    told = [f for f in _all(facts, wire.FACT_EMPTIED) if isinstance(f.get("calls"), int)]
    last = max(told, key=lambda f: int(f["calls"]), default=None)
    return (last["calls"], str(last["where"]) if last.get("where") else None) if last else None


def _allocator(facts: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The last counts of the device allocator that the hooks told."""
    told = _all(facts, wire.FACT_ALLOCATOR)
    last = told[-1] if told else {}
    return {k: float(v) for k, v in last.items() if isinstance(v, int | float)}


def _failures(processes: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Errors for lack of memory and of dead workers, of every process."""
    return tuple(f for p in processes for f in _all(p["facts"], wire.FACT_FAILURE))


def _notes(facts: Sequence[dict[str, Any]], processes: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Why something is missing, in the words of the hooks and of whoever looked for them."""
    main = [p for p in processes if p["role"] != "worker"]
    reasons = [str(p["hooks"]) for p in main if p["hooks"] not in (None, "loaded")]
    notes = [] if any(p["hooks"] == "loaded" for p in main) else reasons
    notes += [str(f.get("text")) for f in _all(facts, wire.FACT_NOTE) if f.get("text")]
    notes += [
        f"hook {f.get('hook')} switched itself off: {f.get('error')}"
        for f in _all(facts, wire.FACT_HOOK_OFF)
    ]
    return tuple(dict.fromkeys(notes))


def _stack_rows(reader: Reader, span: tuple[int, int]) -> list[tuple[Any, ...]]:
    return reader.rows(
        "SELECT pid, thread, frames, sum(samples) FROM stack WHERE t_ns BETWEEN ? AND ? "
        "GROUP BY ALL ORDER BY 4 DESC LIMIT 5000",
        span,
    )


def _worker_stacks(
    rows: Sequence[tuple[Any, ...]], processes: Sequence[dict[str, Any]]
) -> StackShares:  # fmt: skip
    """What loader workers do while they make batches; waiting for an index is not that."""
    workers = {p["pid"] for p in processes if p["role"] == "worker"}
    return stacks.summarise(
        (frames, int(count))
        for pid, thread, frames, count in rows
        if pid in workers and "main" in thread.lower() and not stacks.waits_for_work(frames)
    )


def _stacks(rows: Sequence[tuple[Any, ...]], pid: int | None) -> StackShares:
    mine = [r for r in rows if pid is None or r[0] == pid]
    by_thread: Counter[str] = Counter()
    for _, thread, _, samples in mine:
        by_thread[thread] += samples
    chosen = _training_thread(by_thread)
    return stacks.summarise((f, int(n)) for _, t, f, n in mine if t == chosen)


def _training_thread(samples: Counter[str]) -> str | None:
    main = [t for t in samples if t and "main" in t.lower()]
    return main[0] if main else (samples.most_common(1)[0][0] if samples else None)


def _busy_threads(
    rows: Sequence[tuple[Any, ...]], pid: int | None
) -> tuple[tuple[str, float], ...]:
    """Threads beside the training thread that run Python, as shares of its samples."""
    all_, running = Counter[str](), Counter[str]()
    for of, thread, frames, samples in rows:
        if of == pid:
            all_[thread] += samples
            running[thread] += 0 if stacks.rests(frames) else samples
    main = _training_thread(all_)
    if main is None or all_[main] < shares.MIN_STACK_SAMPLES:
        return ()
    found = [(t, min(1.0, n / all_[main])) for t, n in running.most_common() if t != main and n]
    return tuple(found[:5])
