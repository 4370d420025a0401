"""The twin of text_collate.py: tokens are made once before training, and the model earns its keep.

fixes: text_collate.py
expect: bottleneck=compute-bound|memory-bound, input<=0.2
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "60"))
BATCH, LENGTH, VOCABULARY, WIDTH = 16, 128, 4096, 256


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(ids)).mean(1))


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # many short operators: threads would wait for each other
    ids = torch.randint(0, VOCABULARY, (STEPS * BATCH, LENGTH))
    loader = DataLoader(TensorDataset(ids, ids[:, 0] % 2), BATCH, shuffle=True)
    net = Classifier()
    optimizer = torch.optim.AdamW(net.parameters())
    for batch, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(batch), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
