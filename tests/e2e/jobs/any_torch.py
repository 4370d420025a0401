"""What each torch since 2.1 can do: workers, mixed precision, a compiled model, a checkpoint."""

import hashlib
import io
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 4))
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    data = TensorDataset(torch.randn(400, 32), torch.randint(4, (400,)))
    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=1)
    steps = 0
    for call in (model, compiled):
        for x, y in loader:
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(call(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            steps += 1
        with torch.no_grad():
            model.eval()
            for x, _ in DataLoader(data, batch_size=100):
                call(x)
            model.train()
        torch.save(model.state_dict(), io.BytesIO())
    weights = [value.tolist() for value in model.state_dict().values()]
    print("torch", torch.__version__, "python", sys.version.split()[0])
    print("steps", steps)
    print("weights", hashlib.sha256(repr(weights).encode()).hexdigest())
    print("generator", torch.rand(1).item())


if __name__ == "__main__":
    main()
