"""How many batches an epoch of a loader has, where torch's own samplers keep the number.

Never `len()` of a data set of the job's own: that is the job's code, and may read a file.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def length(loader: "Any") -> "int | None":
    """Batches an epoch; None where only the job's code could say. Never raises."""
    try:
        return _batches(loader)
    except Exception:  # a loader or a sampler of another make
        return None


def _batches(loader: "Any") -> "int | None":
    samplers: "Any" = sys.modules["torch.utils.data.sampler"]
    batches = loader.batch_sampler
    if type(batches) is not samplers.BatchSampler:
        return None
    sampler = batches.sampler
    own = vars(sampler)
    if type(sampler) in (samplers.SequentialSampler, samplers.RandomSampler):
        samples = own.get("_num_samples")
        if samples is None:
            samples = _rows(own["data_source"])
    elif type(sampler) is samplers.SubsetRandomSampler:
        samples = _rows(own["indices"])
    elif type(sampler).__module__.startswith("torch.utils.data."):
        samples = own.get("num_samples")  # weighted, distributed
    else:
        return None
    size = batches.batch_size
    if type(samples) is not int or type(size) is not int or size < 1:
        return None
    return samples // size if batches.drop_last else -(-samples // size)


def _rows(source: "Any") -> "int | None":
    """The length of what torch or Python itself counts."""
    datasets: "Any" = sys.modules["torch.utils.data.dataset"]
    if type(source) in (list, tuple, range):
        return len(source)
    if type(source) is datasets.Subset:
        return _rows(source.indices)
    if type(source) is datasets.TensorDataset:
        source = source.tensors[0]
    if type(source) is sys.modules["torch"].Tensor:
        return int(source.shape[0])
    return None
