"""Collectors: one source of readings each, sampled on a thread of its own (runner.py).

A reading that is missing is None in its row, and its reason is told once as a gap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Row: TypeAlias = tuple[str, Mapping[str, Any] | tuple[Any, ...]]  # table, columns


class Gap(NamedTuple):
    """What a source cannot tell here, and why. metric "*": nothing at all."""

    metric: str
    reason: str
    device: int | None = None


class Target(NamedTuple):
    """A process of the job that has torch loaded, for stacks."""

    pid: int
    worker: int | None = None  # a loader worker's number
    stepped: bool = False  # it has begun to train or infer


class Finished(Exception):
    """Raised by `sample`: this source has nothing more to give. A gap says why already."""


class Collector:
    """Two methods and a name. All of them run on the collector's own thread but `interrupt`."""

    name = ""
    default_rate_hz = 1.0
    deadline_s = 5.0  # a sample that takes longer hangs, and is told as a gap

    def probe(self) -> list[Gap]:
        """What cannot be read on this machine. Called once, before the first sample."""
        return []

    def sample(self, t_ns: int) -> list[Row]:
        """Rows of the time `t_ns` (UTC)."""
        raise NotImplementedError

    def last(self, t_ns: int) -> list[Row]:
        """At the end: rows that came since the last sample; none of a source that is read anew."""
        return []

    def interrupt(self) -> None:
        """Makes a `sample` that takes long return soon; from another thread."""

    def close(self) -> None:
        """Lets go of what is open."""


class NvidiaCards:
    """What NVML found, for sources that add to it; told once by its own collector."""

    def __init__(self) -> None:
        self._cards: Sequence[Any] = ()
        self._known = threading.Event()

    def tell(self, cards: Sequence[Any]) -> None:
        """Cards are nvml_card.Card; none when NVML cannot be used here."""
        self._cards = cards
        self._known.set()

    def wait(self, timeout_s: float) -> Sequence[Any] | None:
        """The cards, None while it is not known whether there are any."""
        return self._cards if self._known.wait(timeout_s) else None


@dataclass(frozen=True)
class Context:
    """What collectors know of the run. All of it can be given by a test."""

    job: int  # pid of the job's root process
    pids: Callable[[], Collection[int]] = tuple  # the job's processes, alive
    targets: Callable[[], Sequence[Target]] = tuple
    root: Path = Path("/")  # where /proc, /sys and /dev lie
    rates_hz: Mapping[str, float] = field(default_factory=dict)  # by collector
    stacks: bool = True
    hooked: bool = True  # hooks tell of steps; else stacks are all there is
    joined: Path | None = None  # folder of the host's recorder: devices are read from it
    dcgm_url: str | None = None  # of a dcgm-exporter; None: none is asked
    nvidia: NvidiaCards = field(default_factory=NvidiaCards)


def _host(context: Context) -> Collector:
    from .host import HostCollector

    return HostCollector(root=context.root, job=context.job)


def _processes(context: Context) -> Collector:
    from .processes import ProcessCollector

    return ProcessCollector(context.pids, root=context.root)


def _open_files(context: Context) -> Collector:
    from .open_files import OpenFileCollector

    return OpenFileCollector(context.targets, root=context.root)


def _nvml(context: Context) -> Collector:
    from .nvml import NvmlCollector

    return NvmlCollector(tree=context.pids, root=context.root, found=context.nvidia)


def _dcgm(context: Context) -> Collector:
    from .dcgm import DcgmCollector

    return DcgmCollector(context.nvidia, url=context.dcgm_url, root=context.root)


def _tpu(context: Context) -> Collector:
    from .tpu import TpuCollector

    return TpuCollector(pids=context.pids, root=context.root)


def _amd(context: Context) -> Collector:
    from .amd import AmdCollector

    return AmdCollector(root=context.root)


def _intel(context: Context) -> Collector:
    from .intel import IntelCollector

    return IntelCollector(root=context.root)


def _stacks(context: Context) -> Collector | None:
    from .stacks import EARLY, EARLY_OUTSIDE, StackCollector

    early = EARLY if context.hooked else EARLY_OUTSIDE
    if not context.stacks:
        return None
    return StackCollector(context.targets, root=context.root, early=early)


COLLECTORS: tuple[Callable[[Context], Collector | None], ...] = (
    _host,
    _processes,
    _open_files,
    _nvml,
    _dcgm,
    _tpu,
    _amd,
    _intel,
    _stacks,
)
