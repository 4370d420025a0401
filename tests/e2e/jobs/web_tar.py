"""WebDataset: samples out of tar files, batched by its own pipeline, through WebLoader."""

import io
import tarfile
import tempfile

import numpy
import torch
import webdataset
from torch import nn

with tempfile.TemporaryDirectory() as folder:
    for shard in range(2):
        with tarfile.open(f"{folder}/{shard}.tar", "w") as tar:
            for index in range(120):
                data = io.BytesIO()
                numpy.save(data, numpy.random.rand(64).astype("float32"))
                for name, content in (("npy", data.getvalue()), ("cls", b"%d" % (index % 4))):
                    info = tarfile.TarInfo(f"{shard}-{index:04d}.{name}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    samples = webdataset.WebDataset(f"{folder}/{{0..1}}.tar", shardshuffle=False)
    samples = samples.decode().to_tuple("npy", "cls").batched(8)
    model = nn.Linear(64, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    for x, y in webdataset.WebLoader(samples, batch_size=None, num_workers=0):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.as_tensor(x)), torch.as_tensor(y))
        loss.backward()
        optimizer.step()
        steps += 1
print("steps", steps)
