"""An inference server's loop: requests join and leave a batch, one forward a token, a cache."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 128)
        self.qkv = nn.Linear(128, 384)
        self.out = nn.Linear(128, 128)
        self.head = nn.Linear(128, 1000)

    def forward(self, tokens, cache):
        x = self.words(tokens)
        q, k, v = self.qkv(x).chunk(3, -1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v))
        return self.head(x[:, -1]), (k, v)


model = Decoder().eval()
forwards = 0
with torch.inference_mode():
    for _ in range(6):
        logits, cache = model(torch.randint(1000, (4, 64)), None)
        for _ in range(20):
            token = torch.multinomial(logits.softmax(-1), 1)
            logits, cache = model(token, cache)
            forwards += 1
        forwards += 1
print("steps", forwards)
