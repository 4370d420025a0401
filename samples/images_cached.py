"""The twin of images_decode.py: photos are decoded once, and augmented a batch at a time.

The decoded photos stay in memory as bytes; crop, flip and normalisation run on whole batches. The
machine is now busy with the model, so the model may be a larger one.

fixes: images_decode.py
expect: bottleneck=compute-bound|memory-bound, input<=0.25
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "80"))
BATCH, SIDE, PHOTOS = 24, 146, 192


class DecodedPhotos(Dataset):
    """Photos already decoded and resized; items are asked for a batch at a time."""

    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.pixels = torch.randint(0, 256, (PHOTOS, 3, SIDE, SIDE), dtype=torch.uint8)

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        index = torch.tensor(indices) % PHOTOS
        top, left = torch.randint(0, SIDE - 128, (2,)).tolist()
        images = self.pixels[index, :, top : top + 128, left : left + 128].float().div_(255)
        return images.sub_(self.mean).div_(self.std), index % 10


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 48, 5, 2), nn.ReLU(),
        nn.Conv2d(48, 64, 3, 1), nn.ReLU(),
        nn.Conv2d(64, 96, 3, 2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1536, 10),
    )  # fmt: skip


def main() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)
    loader = DataLoader(DecodedPhotos(), batch_size=BATCH, shuffle=True, collate_fn=lambda b: b)
    for step, (images, labels) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
