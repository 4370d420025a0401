"""Lightning: two epochs of 12 batches with a validation after each."""

import tempfile

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.layers(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val", nn.functional.cross_entropy(self.layers(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def rows(count):
    return DataLoader(TensorDataset(torch.randn(count, 64), torch.randint(4, (count,))), 8)


with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", enable_progress_bar=False, logger=False,
        default_root_dir=folder, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Classifier(), rows(96), rows(32))
print("steps", trainer.global_step)
