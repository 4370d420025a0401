"""The twin of gan_histograms.py: one line of metrics every 50 steps, and networks of a useful size.

Two optimizers step for each batch, which is still one step of training.

fixes: gan_histograms.py
expect: bottleneck=compute-bound|memory-bound, host<=0.3
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
BATCH, LATENT, WIDTH, PIXELS = 512, 64, 1536, 784


def network(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
        nn.Linear(WIDTH, outputs),
    )  # fmt: skip


def main() -> None:
    torch.manual_seed(0)
    generator, critic = network(LATENT, PIXELS), network(PIXELS, 1)
    generator_opt = torch.optim.SGD(generator.parameters(), lr=1e-4)
    critic_opt = torch.optim.SGD(critic.parameters(), lr=1e-4)
    real_or_fake = nn.functional.binary_cross_entropy_with_logits
    one, zero = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
    for step in range(1, STEPS + 1):
        real, fake = torch.rand(BATCH, PIXELS), generator(torch.randn(BATCH, LATENT))
        critic_opt.zero_grad()
        loss = real_or_fake(critic(real), one) + real_or_fake(critic(fake.detach()), zero)
        loss.backward()
        critic_opt.step()
        generator_opt.zero_grad()
        real_or_fake(critic(fake), one).backward()
        generator_opt.step()
        if step % 50 == 0:
            print(f"step {step}: critic loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
