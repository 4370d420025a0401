"""DDP, FSDP and FSDP2 on gloo by torchrun; rank 1 is slow in its own code, or both in turn."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.utils.data import DataLoader, TensorDataset

kind, who = sys.argv[1:]
STEPS, DELAY_S = 40, 0.03
dist.init_process_group("gloo")
torch.set_num_threads(1)
rank = dist.get_rank()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 4))
if kind == "ddp":
    model = nn.parallel.DistributedDataParallel(model)
elif kind == "fsdp":
    model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
else:
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
optimizer = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randn(8 * STEPS, 64), torch.randint(4, (8 * STEPS,)))
for number, (x, y) in enumerate(DataLoader(data, 8)):
    loss = nn.functional.cross_entropy(model(x), y)
    if rank == (number % 2 if who == "turns" else 1):
        time.sleep(DELAY_S)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
if rank == 0:
    print("steps", STEPS)
