"""Training loops as people write them. `python loops.py` runs each in a forked child of its own,
named by a phase, so that torch is imported once."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import accelprof

X, Y = torch.randn(48, 4), torch.randn(48, 1)


def net(inner: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(4, inner), nn.ReLU(), nn.Linear(inner, 1))


def loader(batch: int = 8, **options: object) -> DataLoader:
    return DataLoader(TensorDataset(X, Y), batch_size=batch, **options)


def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (model(x) - y).square().mean()


def plain() -> None:
    """12 steps in 2 epochs, the last batch of each smaller"""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in loader(9):
            optimizer.zero_grad()
            loss(model, x, y).backward()
            optimizer.step()


def accumulation() -> None:
    """3 steps of 2 micro-batches"""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    for n, (x, y) in enumerate(loader()):
        (loss(model, x, y) / 2).backward()
        if n % 2:
            optimizer.step()
            optimizer.zero_grad()


def inline() -> None:
    """10 steps without a loader"""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        loss(model, X, Y).backward()
        optimizer.step()


def gan() -> None:
    """6 steps, one a batch"""
    generator, critic = net(), nn.Linear(1, 1)
    ours = torch.optim.Adam(generator.parameters())
    theirs = torch.optim.Adam(critic.parameters())
    for x, y in loader():
        theirs.zero_grad()
        fake = generator(x)
        (critic(fake.detach()).mean() - critic(y).mean()).backward()
        theirs.step()
        ours.zero_grad()
        (-critic(generator(x)).mean()).backward()
        ours.step()


def lbfgs() -> None:
    """6 steps, each with many calls"""
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=8)
    for x, y in loader():

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            optimizer.zero_grad()
            value = loss(model, x, y)
            value.backward()
            return value

        optimizer.step(closure)


def evaluation() -> None:
    """12 steps, evaluation before, after each epoch and in the middle of one"""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def validate() -> None:
        model.eval()
        with torch.no_grad():
            for x, y in loader(24):
                loss(model, x, y).item()
        model.train()

    validate()
    for _ in range(2):
        for n, (x, y) in enumerate(loader()):
            optimizer.zero_grad()
            loss(model, x, y).backward()
            optimizer.step()
            if n == 2:
                validate()
        validate()


def inference() -> None:
    """6 steps, one a batch"""
    model = net().eval()
    with torch.inference_mode():
        for x, _ in loader():
            model(x)


def decode() -> None:
    """20 steps, one a token"""
    model = nn.Linear(4, 4).eval()
    with torch.no_grad():
        state = X[:1]
        for _ in range(20):
            state = model(state)


def by_hand() -> None:
    """6 steps, without torch.optim"""
    model = net()
    for x, y in loader():
        loss(model, x, y).backward()
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(0.1 * p.grad)
                p.grad = None


def failing() -> None:
    """5 steps: one of 6 batches fails"""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n, (x, y) in enumerate(loader()):
        try:
            optimizer.zero_grad()
            loss(model, x[:, :2] if n == 3 else x, y).backward()
            optimizer.step()
        except RuntimeError:
            continue


def marked() -> None:
    """3 steps of 2 batches"""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n, (x, y) in enumerate(loader()):
        optimizer.zero_grad()
        loss(model, x, y).backward()
        optimizer.step()
        if n % 2:
            accelprof.step()


def workers() -> None:
    """12 steps in 2 epochs with 2 workers"""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in loader(num_workers=2):
            optimizer.zero_grad()
            loss(model, x, y).backward()
            optimizer.step()


def checkpoint() -> None:
    """6 steps, each saved"""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader():
        optimizer.zero_grad()
        loss(model, x, y).backward()
        optimizer.step()
        path = os.environ["ACCELPROF_SPOOL"] + "/model.pt"
        torch.save(model.state_dict(), path)
        with open(path, "rb") as file:
            os.fsync(file.fileno())


LOOPS = [
    plain, accumulation, inline, gan, lbfgs, evaluation, inference, decode, by_hand, failing,
    marked, workers, checkpoint,
]  # fmt: skip

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.optim.SGD(net().parameters())  # imports half of torch once more
    for run in LOOPS:
        child = os.fork()
        if child == 0:
            torch.manual_seed(0)
            with accelprof.phase(run.__name__):
                run()
            os._exit(0)  # the end of an interpreter with torch takes a second
        assert os.waitpid(child, 0)[1] == 0, run.__name__
