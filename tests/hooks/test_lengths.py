"""Facts that torch itself keeps: batches of an epoch and threads, without the job's own code."""

from __future__ import annotations

from pathlib import Path

from hooked import run


def test_length_of_an_epoch_without_the_jobs_len_and_threads_after_a_call(tmp_path: Path) -> None:
    script = """
        import torch
        from torch.utils.data import (
            DataLoader, Dataset, IterableDataset, Subset, SubsetRandomSampler, TensorDataset,
            WeightedRandomSampler,
        )
        from torch.utils.data.distributed import DistributedSampler

        class Own(Dataset):
            asked = 0
            def __len__(self):
                Own.asked += 1
                return 10
            def __getitem__(self, index):
                return torch.ones(2)

        class Stream(IterableDataset):
            def __iter__(self):
                return iter([torch.ones(2)] * 10)

        own, tensors = Own(), TensorDataset(torch.ones(10, 2))
        spread = DistributedSampler(own, num_replicas=2, rank=0)
        Own.asked = 0
        loaders = [
            DataLoader(tensors, batch_size=4, shuffle=True),
            DataLoader(tensors, batch_size=4, drop_last=True),
            DataLoader(Subset(own, range(6)), batch_size=4),
            DataLoader(own, batch_size=3, sampler=SubsetRandomSampler([1, 2, 3, 4])),
            DataLoader(own, batch_size=2, sampler=WeightedRandomSampler([1.0] * 10, 8)),
            DataLoader(own, batch_size=2, sampler=spread),
            DataLoader(own, batch_size=4),
            DataLoader(Stream(), batch_size=4),
            DataLoader(own, batch_size=None),
        ]
        for loader in loaders:
            iter(loader)
        print(Own.asked)
        torch.set_num_threads(3)
        torch.nn.Linear(2, 2)(torch.ones(2))
    """
    ours = run(script, tmp_path)
    main = ours.main()
    assert [f["length"] for f in main.fact("loader")] == [3, 2, 2, 2, 4, 3, None, None, None]
    assert ours.out == run(script, tmp_path, hooks=False).out
    assert [f["threads"] for f in main.fact("root")] == [3] and not main.fact("hook_off")
