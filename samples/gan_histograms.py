"""A GAN that writes a histogram of every weight and gradient to its metrics file, step after step.

Both networks are small; the training thread spends its time turning tensors into Python lists and
JSON for a file that nobody reads that closely.

fixed by: gan_summary.py
expect: bottleneck=host-bound, cause=python|logging|synchronisation|small-kernels
"""

import json
import os
import tempfile
from typing import TextIO

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "900"))
BATCH, LATENT, WIDTH = 64, 16, 128


def network(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
        nn.Linear(WIDTH, outputs),
    )  # fmt: skip


def histogram(values: list[float], bins: int = 64) -> list[int]:
    low, high = min(values), max(values)
    scale = (bins - 1) / ((high - low) or 1.0)
    counts = [0] * bins
    for value in values:
        counts[int((value - low) * scale)] += 1
    return counts


def write_histograms(file: TextIO, step: int, nets: dict[str, nn.Module]) -> None:
    for net_name, net in nets.items():
        for name, weight in net.named_parameters():
            for kind, tensor in (("weight", weight.detach()), ("gradient", weight.grad)):
                if tensor is not None:
                    counts = histogram(tensor.flatten().tolist())
                    row = {"step": step, "name": f"{net_name}.{name}.{kind}", "counts": counts}
                    file.write(json.dumps(row) + "\n")


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is too small to share between cores
    generator, critic = network(LATENT, 8), network(8, 1)
    generator_opt = torch.optim.Adam(generator.parameters(), lr=1e-4)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-4)
    real_or_fake = nn.functional.binary_cross_entropy_with_logits
    one, zero = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
    with tempfile.TemporaryFile("w") as file:
        for step in range(STEPS):
            real, fake = torch.randn(BATCH, 8) + 2, generator(torch.randn(BATCH, LATENT))
            critic_opt.zero_grad()
            loss = real_or_fake(critic(real), one) + real_or_fake(critic(fake.detach()), zero)
            loss.backward()
            critic_opt.step()
            generator_opt.zero_grad()
            real_or_fake(critic(fake), one).backward()
            generator_opt.step()
            write_histograms(file, step, {"generator": generator, "critic": critic})


if __name__ == "__main__":
    main()
