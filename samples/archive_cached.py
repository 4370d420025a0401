"""The twin of archive_locked.py: the archive is unpacked once into one flat file that is mapped.

Reading a record is now a copy out of the page cache; the model can be a larger one.

fixes: archive_locked.py
expect: bottleneck=compute-bound|memory-bound, input<=0.2
"""

import os
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "150"))
BATCH, SIDE, RECORDS = 16, 64, 64


class FlatFile(Dataset):
    """Records of equal size in one mapped file."""

    def __init__(self, path: Path) -> None:
        torch.manual_seed(0)
        size = RECORDS * 3 * SIDE * SIDE
        path.write_bytes(torch.randint(0, 64, (size,), dtype=torch.uint8).numpy().tobytes())
        mapped = torch.from_file(str(path), shared=True, size=size, dtype=torch.uint8)
        self.records = mapped.view(RECORDS, 3, SIDE, SIDE)

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.records[index % RECORDS].float() / 64, index % 10


def main() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 2), nn.ReLU(),
        nn.Conv2d(64, 128, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(2048, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters())
    with tempfile.TemporaryDirectory() as folder:
        for images, labels in DataLoader(FlatFile(Path(folder, "records.bin")), BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
