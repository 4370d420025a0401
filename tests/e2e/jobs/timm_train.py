"""What timm's train.py does: its loader, optimizer, schedule, weight average and metrics."""

import timm
import timm.data
import timm.optim
import timm.scheduler
import timm.utils
import torch
from PIL import Image


class Pictures(torch.utils.data.Dataset):
    transform = None

    def __len__(self):
        return 96

    def __getitem__(self, index):
        return self.transform(Image.new("RGB", (64, 64), (index, 0, 0))), index % 4


def main():
    model = timm.create_model("test_vit", num_classes=4, img_size=32)
    loader = timm.data.create_loader(
        Pictures(), (3, 32, 32), 4, is_training=True, use_prefetcher=False, num_workers=1,
        persistent_workers=False,
    )  # fmt: skip
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3)
    schedule, _ = timm.scheduler.create_scheduler_v2(optimizer, num_epochs=1)
    average = timm.utils.ModelEmaV3(model)
    losses = timm.utils.AverageMeter()
    model.train()
    steps = 0
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        timm.utils.dispatch_clip_grad(model.parameters(), 1.0)
        optimizer.step()
        average.update(model)
        losses.update(loss.item(), len(x))
        schedule.step_update(num_updates=steps)
        steps += 1
    print("steps", steps)


if __name__ == "__main__":
    main()
