"""A small job that trains, writes down what it sees of itself, and ends as it is told.

    python account.py WORKERS METHOD PERSISTENT END [torch]

Two epochs, the second left in its middle, so workers live when it ends. `account.json` in its
folder has what a job can see: a job beside a profiler must see the same.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ITEMS, BATCH, LEAVES_AT = 24, 4, 3
OF_TORCHRUN = ("TORCHELASTIC_", "MASTER_", "TORCH_NCCL_")  # a port and an id of its own each time


def digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def descriptors() -> list[str]:
    """What is open, without the numbers of pipes and shared memory.

    Before Python 3.13 a mapped file keeps a descriptor: the hooks' ring has one, and is left out.
    """
    found = []
    for number in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(number.readlink())
            if not target.endswith(".ring"):
                found.append(target.partition(":[")[0].partition("torch_")[0])
    return sorted(found)


def seen() -> dict[str, Any]:
    """What this process can see of itself."""
    return {
        "flags": repr(sys.flags), "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path,
        "executable": sys.executable, "cwd": str(Path.cwd()), "umask": os.umask(os.umask(0o22)),
        "environ": {k: v for k, v in os.environ.items()
                    if not k.startswith(("ACCELPROF_", *OF_TORCHRUN))},
        "descriptors": descriptors(),
        "handlers": [str(signal.getsignal(s)) for s in sorted(signal.valid_signals())],
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "threads": [sorted(t.name for t in threading.enumerate()),
                    len(list(Path("/proc/self/task").iterdir()))],
        "limits": [resource.getrlimit(getattr(resource, name))
                   for name in dir(resource) if name.startswith("RLIMIT_")],
        "priority": [os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0))],
        "hooks of sys": [sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile(),
                         sys.displayhook is sys.__displayhook__, sys.getswitchinterval(),
                         sys.getrecursionlimit(), str(threading.excepthook)],
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "warnings": [str(f[:1] + f[3:]) for f in warnings.filters],
        "logging": [str(logging.root.handlers), logging.root.level],
        "locale": locale.setlocale(locale.LC_ALL), "random": digest(random.getstate()),
        "terminal": [os.isatty(n) for n in range(3)],
        "start method": multiprocessing.get_start_method(allow_none=True),
    }  # fmt: skip


# -- without torch -------------------------------------------------------------------------------


def made(number: int) -> list[float]:
    """A sample: its own random numbers."""
    own = random.Random(number)
    return [own.random() for _ in range(8)]


def epochs(workers: int, method: str, persistent: bool) -> Iterator[list[list[float]]]:
    """Batches of two epochs, from a pool that lives for one of them or for both."""
    context = multiprocessing.get_context(method)
    with contextlib.ExitStack() as kept:
        pool = kept.enter_context(context.Pool(workers)) if workers and persistent else None
        for _ in range(2):
            with contextlib.ExitStack() as epoch:
                own = pool or (epoch.enter_context(context.Pool(workers)) if workers else None)
                items = own.imap(made, range(ITEMS)) if own else map(made, range(ITEMS))
                while batch := [row for _, row in zip(range(BATCH), items, strict=False)]:
                    yield batch


def train(workers: int, method: str, persistent: bool) -> Iterator[str]:
    """Trains a line; yields its weights after each step."""
    weights = [random.random() for _ in range(8)]
    for batch in epochs(workers, method, persistent):
        for row in batch:
            error = sum(w * x for w, x in zip(weights, row, strict=True)) - 1
            weights = [w - 0.05 * error * x for w, x in zip(weights, row, strict=True)]
        yield digest(weights)


# -- with torch ----------------------------------------------------------------------------------


class Noise:
    """Samples that draw from every generator that a worker seeds."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, number: int) -> Any:
        import torch

        return torch.rand(8) + random.random() + number / ITEMS


def train_torch(workers: int, method: str, persistent: bool) -> Iterator[str]:
    """The same with torch's loader, a model with dropout, and Adam."""
    import torch
    from torch.utils.data import DataLoader

    torch.manual_seed(1)
    loader = DataLoader(
        Noise(), batch_size=BATCH, shuffle=True, num_workers=workers,  # type: ignore[arg-type]
        multiprocessing_context=method if workers else None,
        persistent_workers=persistent and workers > 0,
    )  # fmt: skip
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.Dropout(0.2), torch.nn.ReLU(), torch.nn.Linear(8, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            (model(batch) - 1).square().mean().backward()
            optimizer.step()
            state = [value.tolist() for value in model.state_dict().values()]
            yield digest([state, torch.get_rng_state().tolist()])


def end(how: str) -> None:
    sys.stdout.flush()
    if how == "exception":
        raise ValueError("mine")
    if how == "exit 3":
        sys.exit(3)
    if how == "os._exit":
        os._exit(5)
    if how == "SIGTERM":
        signal.raise_signal(signal.SIGTERM)
    if how == "SIGINT":
        signal.raise_signal(signal.SIGINT)


def main(workers: str, method: str, persistent: str, how: str, kind: str = "") -> None:
    random.seed(0)
    account: dict[str, Any] = {"at start": seen(), "steps": []}
    training = (train_torch if kind else train)(int(workers), method, persistent == "1")
    for number, state in enumerate(training):
        account["steps"].append(state)
        print("step", number, state[:8])
        if number == ITEMS // BATCH + LEAVES_AT:
            break
    if not int(workers):  # the pool's own threads and pipes come and go
        account["at end"] = seen()
        with contextlib.suppress(ChildProcessError):
            account["children"] = os.waitpid(-1, os.WNOHANG)
    Path("account.json").write_text(json.dumps(account))
    print("ends by", how, file=sys.stderr)
    end(how)


if __name__ == "__main__":
    main(*sys.argv[1:])
