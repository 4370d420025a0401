"""Trains under one of the tools that a job may bring itself, and prints what the tool saw of it."""

from __future__ import annotations

import collections
import cProfile
import faulthandler
import hashlib
import logging
import pstats
import signal
import sys
import tempfile
import threading
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

STEPS = 80  # a capture of ours falls into them
OF_TRAINING = ("aten::", "autograd::", "nn.Module:", "Optimizer", "ProfilerStep", "enumerate")
torch.set_num_threads(1)
torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        return self.layer(x).square()


def loss_of(model: Net, x: Any) -> Any:
    return model(x).mean()


def train(after: Callable[[], object] = lambda: None) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for (x,) in DataLoader(TensorDataset(torch.randn(4 * STEPS, 8)), batch_size=4):
        loss_of(model, x).backward()
        optimizer.step()
        optimizer.zero_grad()
        after()


def digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def cprofile() -> object:
    """Calls of our own functions, and of torch's that training rests on."""
    profile = cProfile.Profile()
    profile.runcall(train)
    calls: collections.Counter[str] = collections.Counter()
    wanted = ("forward", "loss_of", "backward", "_single_tensor_adamw", "fetch", "default_collate")
    for (file, _, name), (_, count, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if name in wanted and ("site-packages/torch" in file or file == __file__):
            calls[name] += count
    return sorted(calls.items())


def setprofile() -> object:
    events: list[tuple[str, str]] = []

    def look(frame: Any, event: str, _: object) -> None:
        if frame.f_code.co_filename == __file__:
            events.append((event, frame.f_code.co_name))

    threading.setprofile(look)
    sys.setprofile(look)
    train()
    kept = sys.getprofile() is look
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    return kept, len(events), digest(events)


def settrace() -> object:
    events: list[tuple[str, int]] = []

    def look(frame: Any, event: str, _: object) -> Any:
        if frame.f_code.co_filename != __file__:
            return None
        events.append((event, frame.f_lineno))
        return look

    sys.settrace(look)
    train()
    kept = sys.gettrace() is look
    sys.settrace(None)
    return kept, len(events), digest(events)


def monitoring() -> object:
    if sys.version_info < (3, 12):
        return "no sys.monitoring"
    counted: collections.Counter[str] = collections.Counter()

    def look(code: Any, _: int) -> object:
        if code.co_filename != __file__:
            return sys.monitoring.DISABLE
        counted[code.co_name] += 1
        return None

    free = [sys.monitoring.get_tool(n) for n in range(6)]
    sys.monitoring.use_tool_id(sys.monitoring.PROFILER_ID, "mine")
    sys.monitoring.register_callback(
        sys.monitoring.PROFILER_ID, sys.monitoring.events.PY_START, look
    )
    sys.monitoring.set_events(sys.monitoring.PROFILER_ID, sys.monitoring.events.PY_START)
    train()
    sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)
    return free, sorted(counted.items())


def torch_profiler() -> object:
    """Two cycles of its own schedule; operators of each, and how often its handler was called."""
    cycles: list[object] = []

    def ready(profile: Any) -> None:
        cycles.append(sorted(
            (event.key, event.count) for event in profile.key_averages()
            if event.key.startswith(OF_TRAINING)
        ))  # fmt: skip

    schedule = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(
        activities=activities, schedule=schedule, on_trace_ready=ready, with_stack=True
    ) as profile:
        train(profile.step)
    return cycles


def autograd_profiler() -> object:
    with torch.autograd.profiler.profile() as profile:
        train()
    return sorted((event.key, event.count) for event in profile.key_averages())


def fault_handler() -> object:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.register(signal.SIGUSR1, file, all_threads=True)
        train(lambda: None)
        signal.raise_signal(signal.SIGUSR1)
        faulthandler.unregister(signal.SIGUSR1)
        file.seek(0)
        return faulthandler.is_enabled(), file.read().count("thread"), file.tell() > 0


def loggers() -> object:
    """Loggers, warnings and timers are the job's own."""
    records: list[str] = []
    handler = logging.Handler(0)
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    before = len(logging.root.handlers)
    logging.root.addHandler(handler)
    logging.root.setLevel(0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        train()
    logging.root.removeHandler(handler)
    found = [signal.getitimer(n) for n in range(3)]
    return before, records, [str(w.message) for w in warned], found, tracemalloc.is_tracing()


def alarms() -> object:
    """A sampler by signal, as pyinstrument and others are."""
    seen: list[str] = []
    signal.signal(signal.SIGPROF, lambda *_: seen.append("tick"))
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    train()
    signal.setitimer(signal.ITIMER_PROF, 0)
    return bool(seen)


TOOLS = [cprofile, setprofile, settrace, monitoring, torch_profiler, autograd_profiler,
         fault_handler, loggers, alarms]  # fmt: skip

if __name__ == "__main__":
    if sys.argv[1:]:  # as the job of a tool that starts it
        train()
    else:
        for tool in TOOLS:
            print(tool.__name__, tool())
    print("weights", digest(torch.rand(1)))
