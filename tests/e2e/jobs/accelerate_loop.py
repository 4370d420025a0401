"""Accelerate: accumulation over 4 batches, an evaluation inside, a step that raises once."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(gradient_accumulation_steps=4, cpu=True)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))
optimizer = torch.optim.AdamW(model.parameters())
train = DataLoader(TensorDataset(torch.randn(800, 64), torch.randint(4, (800,))), 8)
test = DataLoader(TensorDataset(torch.randn(64, 64), torch.randint(4, (64,))), 16)
model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)
loss_of = nn.CrossEntropyLoss()
applied = 0
for number, (x, y) in enumerate(train):
    with accelerator.accumulate(model):
        try:
            if number == 17:
                raise ValueError("a bad batch")
            accelerator.backward(loss_of(model(x), y))
        except ValueError as error:
            print("left out:", error)
        optimizer.step()
        optimizer.zero_grad()
    applied += accelerator.sync_gradients
    if accelerator.sync_gradients and applied % 10 == 0:
        model.eval()
        with torch.no_grad():
            right = sum(int((model(x).argmax(1) == y).sum()) for x, y in test)
        model.train()
print("steps", applied)
