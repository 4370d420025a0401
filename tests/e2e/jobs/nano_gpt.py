"""nanoGPT's loop: batches cut out of an array, 4 micro-batches a step, losses estimated now and
then without gradients."""

import numpy
import torch
from torch import nn
from torch.nn import functional

BLOCK, VOCABULARY = 32, 65
text = numpy.random.default_rng(0).integers(0, VOCABULARY, 20_000)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, VOCABULARY, bias=False)

    def forward(self, tokens, targets=None):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        logits = self.head(self.blocks(self.words(tokens), mask, is_causal=True))
        flat = logits.flatten(0, 1)
        return logits, None if targets is None else functional.cross_entropy(flat, targets.ravel())


def get_batch():
    at = torch.randint(len(text) - BLOCK - 1, (8,))
    x = torch.stack([torch.from_numpy(text[i : i + BLOCK]) for i in at])
    return x, torch.stack([torch.from_numpy(text[i + 1 : i + 1 + BLOCK]) for i in at])


@torch.no_grad()
def estimate_loss(model):
    model.eval()
    losses = [model(*get_batch())[1].item() for _ in range(5)]
    model.train()
    return sum(losses) / len(losses)


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = get_batch()
steps = 0
while steps < 30:
    if steps % 10 == 0:
        estimate_loss(model)
    for _ in range(4):
        _, loss = model(x, y)
        x, y = get_batch()
        (loss / 4).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    steps += 1
print("steps", steps)
