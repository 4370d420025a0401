"""The settings that a trial of `accelprof tune` puts into a job."""

from __future__ import annotations

import json
from pathlib import Path

from hooked import run

JOB = """
    import json
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Counting(Dataset):
        made = 0
        def __len__(self): return 60
        def __getitem__(self, index):
            Counting.made += 1
            return {"x": torch.full((3,), float(index)), "y": index}

    train = DataLoader(Counting(), 2, num_workers=1, prefetch_factor=3, persistent_workers=True)
    other = DataLoader(Counting(), batch_size=4)
    torch.set_num_threads(5)
    epochs, seen = [], []
    for _ in range(2):
        count = 0
        for batch in train:
            seen.append(batch["x"][0, 0].item())
            batch.pop("y")
            batch["x"].mul_(0)
            count += 1
        epochs.append(count)
    print(json.dumps({
        "epochs": epochs, "made": Counting.made, "seen": seen, "workers": train.num_workers,
        "prefetch": train.prefetch_factor, "keep": train.persistent_workers,
        "other": other.num_workers, "threads": torch.get_num_threads(),
        "precision": torch.get_float32_matmul_precision(),
    }))
"""


def settings(folder: Path, **asked: object) -> dict:
    ended = run(JOB, folder, ACCELPROF_TUNE=json.dumps(asked))
    assert "overrides" not in str(ended.main().facts)
    found: dict = json.loads(ended.out)
    return found


def test_settings_are_put_in_where_asked_and_nowhere_else(tmp_path: Path) -> None:
    found = settings(
        tmp_path, where=f"{tmp_path}/job.py:13", main_threads=2, matmul_precision="high",
        loader={"num_workers": 0, "prefetch_factor": 4, "persistent_workers": True},
    )  # fmt: skip
    assert (found["workers"], found["prefetch"], found["keep"]) == (0, None, False)
    assert found["other"] == 0
    assert found["made"] == 120
    assert found["threads"] == 2
    assert found["precision"] == "high"


def test_the_ceiling_replays_batches_as_they_were_when_new(tmp_path: Path) -> None:
    found = settings(tmp_path, where=f"{tmp_path}/job.py:13", replay=True)
    assert found["epochs"] == [30, 30]
    assert found["made"] == 16  # eight batches of two, once
    first = found["seen"][:8]
    assert first == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]
    assert found["seen"][8:16] == first
    assert found["threads"] == 5
