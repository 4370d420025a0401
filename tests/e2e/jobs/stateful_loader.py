"""torchdata's StatefulDataLoader with workers, saved and resumed in the middle of an epoch."""

import torch
from torch import nn
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

model = nn.Linear(64, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(240, 64), torch.randint(4, (240,)))


def train(loader, most):
    count = 0
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        count += 1
        if count == most:
            return loader.state_dict(), count
    return None, count


if __name__ == "__main__":
    state, first = train(StatefulDataLoader(data, 8, num_workers=1), 10)
    again = StatefulDataLoader(data, 8, num_workers=1)
    again.load_state_dict(state)
    print("steps", first + train(again, 1000)[1])
