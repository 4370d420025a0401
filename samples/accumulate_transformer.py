"""A small language model that accumulates gradients over four micro-batches a step.

No twin: a healthy job. Its steps are optimizer steps, not micro-batches.

expect: bottleneck=compute-bound, input<=0.1
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "50"))
MICRO_BATCHES, BATCH, LENGTH, VOCABULARY, WIDTH = 4, 4, 96, 2048, 256


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.layers(self.embed(ids), mask=mask, is_causal=True))


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # many short operators: threads would wait for each other
    ids = torch.randint(0, VOCABULARY, (STEPS * MICRO_BATCHES * BATCH, LENGTH + 1))
    net = LanguageModel()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for number, (batch,) in enumerate(DataLoader(TensorDataset(ids), BATCH), 1):
        logits = net(batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        (loss / MICRO_BATCHES).backward()
        if number % MICRO_BATCHES == 0:
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
