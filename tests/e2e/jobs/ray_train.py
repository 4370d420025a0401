"""Ray Train: two workers that Ray starts, with DistributedDataParallel."""

import ray
import ray.train
import ray.train.torch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def work():
    model = ray.train.torch.prepare_model(nn.Linear(64, 4))
    data = TensorDataset(torch.randn(480, 64), torch.randint(4, (480,)))
    loader = ray.train.torch.prepare_data_loader(DataLoader(data, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        steps += 1
    assert steps == 30


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
scaling = ray.train.ScalingConfig(num_workers=2, use_gpu=False)
ray.train.torch.TorchTrainer(work, scaling_config=scaling).fit()
print("steps 30")
