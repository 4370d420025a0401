"""A text classifier that splits its sentences into tokens inside collate_fn, batch after batch.

A worker does it beside the training, but the splitting is pure Python and costs far more than the
model: one processor is busy with text while the training thread waits.

fixed by: text_tokens.py
expect: bottleneck=input-bound, cause=collate|decode-cpu|too-few-workers, input>=0.6
"""

import os
import random
import re

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "80"))
BATCH, WORDS, VOCABULARY = 64, 900, 4096
SYLLABLES = ["ba", "ke", "lo", "mi", "nu", "ra", "se", "ti", "vo", "zu"]
PIECE = re.compile(r"[bklmnrstvz][aeiou]|[.,;!?]|\s+|.")


class Sentences(Dataset):
    def __init__(self) -> None:
        rng = random.Random(0)
        self.texts = [
            " ".join("".join(rng.choices(SYLLABLES, k=3)) for _ in range(WORDS)) for _ in range(64)
        ]

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[str, int]:
        return self.texts[index % len(self.texts)], index % 2


def tokenise(text: str) -> list[int]:
    """Byte-pair-like merging: pieces, then pairs of pieces, to ids."""
    pieces = [piece for piece in PIECE.findall(text.lower()) if not piece.isspace()]
    pairs = ["".join(pair) for pair in zip(pieces[::2], pieces[1::2], strict=False)]
    return [sum(map(ord, pair)) % VOCABULARY for pair in pairs]


def collate(rows: list[tuple[str, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    ids = [torch.tensor(tokenise(text)) for text, _ in rows]
    labels = torch.tensor([label for _, label in rows])
    return nn.utils.rnn.pad_sequence(ids, batch_first=True), labels


def main() -> None:
    net = nn.Sequential(nn.EmbeddingBag(VOCABULARY, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(net.parameters())
    torch.set_num_threads(1)  # the other core splits
    for text, labels in DataLoader(Sentences(), BATCH, num_workers=1, collate_fn=collate):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(text), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
