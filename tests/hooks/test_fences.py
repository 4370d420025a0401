"""A hook that fails is switched off and told once; the job and the other hooks go on."""

from __future__ import annotations

import re
from pathlib import Path

from hooked import both, run


def test_things_that_break_under_our_hands(tmp_path: Path) -> None:
    script = """
        import torch
        from torch.utils.data import DataLoader

        class Shapeless:
            @property
            def shape(self):
                raise RuntimeError("not yours to look at")

        class Odd(torch.nn.Module):
            def parameters(self, recurse=True):
                raise RuntimeError("nor this")
            def forward(self, x):
                return x

        class Group(torch.optim.SGD):
            @property
            def param_groups(self):
                if "_groups" in self.__dict__ and self.armed:
                    raise RuntimeError("nor that")
                return self.__dict__["_groups"]
            @param_groups.setter
            def param_groups(self, value):
                self.__dict__["_groups"] = value
            armed = False
            def step(self, closure=None):
                super().step(closure)
                self.armed = True

        odd = Odd()
        p = torch.nn.Parameter(torch.ones(1))
        for _ in range(2):
            for batch in DataLoader([Shapeless(), Shapeless()], batch_size=None,
                                    collate_fn=lambda x: x):
                odd(batch)
        optimizer = Group([p], lr=0.1)
        p.sum().backward()
        optimizer.step()
        print(type(batch).__name__, optimizer.step.__name__)
    """
    _, ours = both(script, tmp_path)
    main = ours.main()
    assert {f["hook"] for f in main.fact("hook_off")} == {"batch size", "optimizer"}
    assert all("not" in f["error"] or "nor" in f["error"] for f in main.fact("hook_off"))
    assert len(main.of("DATA_WAIT")) == 8 and len(main.of("FORWARD")) == 4
    assert [f["name"] for f in main.fact("root")] == ["Odd"]


def test_no_room_and_no_spool(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: no room for a ring, or for a fact."""
    script = """
        import os, resource, shutil, sys, torch
        if sys.argv[1] == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        else:
            shutil.rmtree(os.environ.get("ACCELPROF_SPOOL", "none"))
        print(torch.nn.Linear(2, 2)(torch.ones(2)).shape)
    """
    for case in ("full", "gone"):
        ours = run(script, tmp_path / case, case)
        assert (ours.out, ours.err, ours.status) == ("torch.Size([2])\n", "", 0)


def test_signal_handlers_and_threads_are_the_jobs(tmp_path: Path) -> None:
    script = """
        import gc, signal, sys, threading, torch
        print([signal.getsignal(s) for s in sorted(signal.valid_signals())])
        print(threading.enumerate(), sys.gettrace(), sys.getprofile(), sys.excepthook)
        torch.nn.Linear(2, 2)(torch.ones(2))
        print(threading.active_count(), torch.initial_seed() != 0, torch.rand(1).shape)
        torch.manual_seed(3); torch.nn.Linear(2, 2)(torch.ones(2)); print(torch.rand(2))
    """
    both(script, tmp_path, same=lambda text: re.sub(r"0x\w+|started \d+", "", text))
