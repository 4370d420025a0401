"""A small image classifier whose photos are decoded in the training process.

Every sample is read from a file, unpacked, resized, cropped, flipped and normalised by the
training thread itself (num_workers=0), so the model waits for its next batch most of the time.

fixed by: images_cached.py
expect: bottleneck=input-bound, cause=loader-in-process|decode-cpu, input>=0.6
"""

import os
import random
import tempfile
import zlib
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "100"))
BATCH, SIDE, PHOTOS = 16, 256, 48


def write_photos(folder: Path) -> list[Path]:
    """Smooth random pictures with some grain, packed like a photo library on disk."""
    torch.manual_seed(0)
    paths = []
    for number in range(PHOTOS):
        coarse = torch.rand(1, 3, 8, 8)
        picture = nn.functional.interpolate(coarse, (SIDE, SIDE), mode="bicubic").clamp(0, 1)
        grain = torch.randint(0, 6, (3, SIDE, SIDE))
        pixels = (picture[0] * 249).to(torch.uint8) + grain.to(torch.uint8)
        path = folder / f"{number}.photo"
        path.write_bytes(zlib.compress(pixels.numpy().tobytes()))
        paths.append(path)
    return paths


class Photos(Dataset):
    """Decodes and augments one photo per item."""

    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        raw = zlib.decompress(self.paths[index % PHOTOS].read_bytes())
        image = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(3, SIDE, SIDE).float()
        image = nn.functional.interpolate(image[None], (146, 146), mode="bicubic")[0]
        top, left = random.randrange(18), random.randrange(18)
        image = image[:, top : top + 128, left : left + 128] / 255
        if random.random() < 0.5:
            image = image.flip(2)
        return (image - self.mean) / self.std, index % 10


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, 4), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def main() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)
    with tempfile.TemporaryDirectory() as folder:
        loader = DataLoader(Photos(write_photos(Path(folder))), batch_size=BATCH)
        for step, (images, labels) in enumerate(loader, 1):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            if step % 40 == 0:
                print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
