"""Errors that the report has to know of: a dead worker, memory that ran out."""

from __future__ import annotations

from pathlib import Path

from hooked import both

SCRIPT = """
    import os, signal, torch
    class Dying(torch.utils.data.Dataset):
        def __len__(self): return 4
        def __getitem__(self, at):
            os.kill(os.getpid(), signal.SIGKILL)
    try:
        list(torch.utils.data.DataLoader(Dying(), num_workers=1))
    except RuntimeError as error:
        print("DataLoader worker" in str(error))
    class Hungry(torch.nn.Module):
        def forward(self, x):
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't "
                               "allocate memory: you tried to allocate 4 bytes")
    class Wrong(torch.nn.Module):
        def forward(self, x):
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    for model in (Hungry(), Hungry(), Wrong()):
        try:
            model(1)
        except RuntimeError as error:
            print(error)
"""


def test_a_dead_worker_and_memory_that_ran_out_are_told_once(tmp_path: Path) -> None:
    _, ours = both(SCRIPT, tmp_path)
    told = ours.main().fact("failure")
    assert [f["what"] for f in told] == ["worker", "memory"]
    assert "killed by signal: Killed" in told[0]["text"] and told[0]["error"] == "RuntimeError"
    assert "allocate memory" in told[1]["text"]
