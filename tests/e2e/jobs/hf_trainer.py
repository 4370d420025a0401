"""Hugging Face Trainer: accumulation over 2 batches, evaluation every 8 steps, two checkpoints."""

import tempfile

import torch
from torch import nn
from transformers import Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {"x": torch.randn(64, generator=generator), "labels": torch.tensor(index % 4)}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))

    def forward(self, x, labels=None):
        logits = self.layers(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=Model(),
        args=TrainingArguments(
            folder, max_steps=24, per_device_train_batch_size=8, gradient_accumulation_steps=2,
            eval_strategy="steps", eval_steps=8, save_steps=12, logging_steps=5, report_to="none",
            use_cpu=True, disable_tqdm=True,
        ),
        train_dataset=Rows(1000),
        eval_dataset=Rows(64),
    )  # fmt: skip
    trainer.train()
print("steps", trainer.state.global_step)
