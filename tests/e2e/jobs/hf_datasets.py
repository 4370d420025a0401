"""Hugging Face datasets, formatted as tensors, through a plain DataLoader."""

import datasets
import torch
from torch import nn

rows = {"x": [[float(i % 7)] * 64 for i in range(320)], "y": [i % 4 for i in range(320)]}
data = datasets.Dataset.from_dict(rows).with_format("torch")
model = nn.Linear(64, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = 0
for batch in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(batch["x"]), batch["y"]).backward()
    optimizer.step()
    steps += 1
print("steps", steps)
