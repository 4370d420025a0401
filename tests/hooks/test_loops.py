"""What a job's loops look like in its spans: one real job, cut into sections by phases."""

from __future__ import annotations

from pathlib import Path

import pytest
from hooked import run
from spool_reading import Process, Span

JOB = """
import accelprof, os, torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(24, 8), torch.randint(0, 2, (24,)))
loader = DataLoader(data, batch_size=8)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    def forward(self, x):
        return self.inner(x)

net = Net()
loss = nn.CrossEntropyLoss()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)

with accelprof.phase("inference"):
    net.eval()
    with torch.no_grad():
        for _ in range(5):
            net(torch.randn(4, 8))

with accelprof.phase("plain"):
    net.train()
    for x, y in loader:
        sgd.zero_grad()
        loss(net(x), y).backward()
        sgd.step()

with accelprof.phase("accumulate"):
    for n, (x, y) in enumerate(loader):
        loss(net(x), y).backward()
        if n % 3 == 2:
            sgd.step()

with accelprof.phase("gan"):
    maker, judge = nn.Linear(2, 8), nn.Linear(8, 1)
    one, two = (torch.optim.Adam(m.parameters()) for m in (maker, judge))
    for x, _ in loader:
        judge(maker(torch.randn(8, 2)).detach()).mean().backward()
        two.step()
        judge(maker(torch.randn(8, 2))).mean().backward()
        one.step()

with accelprof.phase("lbfgs"):
    lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=3)
    def closure():
        lbfgs.zero_grad()
        value = loss(net(x), y)
        value.backward()
        return value
    for x, y in loader:
        lbfgs.step(closure)

with accelprof.phase("stream"):
    class Numbers(IterableDataset):
        def __iter__(self):
            yield from range(5)
    print([len(b) for b in DataLoader(Numbers(), batch_size=2)])

with accelprof.phase("odd batches"):
    for b in ({"a": [torch.ones(3, 2)]}, "text", 5, None, [], (1, {"x": torch.ones(6)})):
        for _ in DataLoader([b], batch_size=None, collate_fn=lambda b: b):
            pass

with accelprof.phase("nested"):
    class Outer(IterableDataset):
        def __iter__(self):
            for x, _ in loader:
                yield net(x).detach()
    for _ in DataLoader(Outer(), batch_size=None):
        pass

with accelprof.phase("copies"):
    x = torch.ones(512, 1024)
    x.to("meta"); x.to(torch.float64); x.cpu(); x.to("cpu"); x.to(device="meta")

with accelprof.phase("checkpointing"):
    from torch.utils.checkpoint import checkpoint
    value = checkpoint(net.inner, torch.randn(8, 8, requires_grad=True), use_reentrant=False)
    value.sum().backward()
    torch.autograd.grad(net(x[:4, :8]).sum(), list(net.parameters()))

with accelprof.phase("saving"):
    torch.save(net.state_dict(), "net.pt")
    with open("net.pt", "ab") as file:
        os.fsync(file.fileno())

with accelprof.phase("thread"):
    import threading
    thread = threading.Thread(target=lambda: net(torch.randn(2, 8)))
    thread.start(); thread.join()
"""


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> Process:
    ended = run(JOB, tmp_path_factory.mktemp("loops"), ACCELPROF_CAPTURE="off")
    assert ended.out == "[2, 2, 1]\n" and not ended.err
    process = ended.main()
    assert not process.fact("hook_off") and not process.fact("note")
    return process


def section(main: Process, name: str) -> list[Span]:
    """The spans inside of a phase, without the collector's."""
    ident = next(f["id"] for f in main.fact("phase") if f["name"] == name)
    (phase,) = [s for s in main.of("PHASE") if s.ident == ident]
    inside = [s for s in main.spans if phase.start <= s.start and s.end <= phase.end]
    return [s for s in inside if s.kind not in ("GC", "PHASE")]


def kinds(spans: list[Span], *left_out: str) -> list[str]:
    return [s.kind for s in spans if s.kind not in {"FETCH", "COLLATE", *left_out}]


def root(main: Process, name: str) -> int:
    return next(f["id"] for f in main.fact("root") if f["name"] == name)


def test_inference(main: Process) -> None:
    spans = section(main, "inference")
    assert [(s.kind, s.ident, s.flags) for s in spans] == [("FORWARD", root(main, "Net"), 0)] * 5


def test_plain(main: Process) -> None:
    spans = section(main, "plain")
    step = ["DATA_WAIT", "FORWARD", "FORWARD", "BACKWARD", "OPTIMIZER"]
    first = ["DATA_WAIT", "BATCH", *step]
    assert kinds(spans) == [*first, *step, *step, "DATA_WAIT"]
    waits = [s for s in spans if s.kind == "DATA_WAIT"]
    assert [s.flags for s in waits] == [1, 0, 0, 0, 2]
    assert [s.value for s in spans if s.kind == "BATCH"] == [8]
    forwards = [s for s in spans if s.kind == "FORWARD"]
    assert {s.flags for s in forwards} == {3}
    assert {s.ident for s in forwards} == {root(main, "Net"), root(main, "CrossEntropyLoss")}
    (loader, *_) = main.fact("loader")
    assert loader["where"].endswith("job.py:8") and loader["dataset"] == "TensorDataset"
    assert loader["num_workers"] == 0 and loader["batch_size"] == 8
    (optimizer, *_) = main.fact("optimizer")
    assert optimizer["where"].endswith("job.py:19")
    assert (optimizer["name"], optimizer["parameters"], optimizer["tensors"]) == ("SGD", 90, 4)
    (net,) = [f for f in main.fact("root") if f["name"] == "Net"]
    assert (net["parameters"], net["bytes"], net["dtype"]) == (90, 360, "float32")


def test_fetches_lie_in_their_waits(main: Process) -> None:
    spans = section(main, "plain")
    waits = [s for s in spans if s.kind == "DATA_WAIT"]
    for kind in ("FETCH", "COLLATE"):
        inner = [s for s in spans if s.kind == kind]
        assert 1 <= len(inner) <= 3 and {s.ident for s in inner} == {0}  # quick ones are sampled
        assert all(any(w.start <= s.start and s.end <= w.end for w in waits) for s in inner)


def test_accumulation(main: Process) -> None:
    found = kinds(section(main, "accumulate"), "BATCH")
    assert found.count("OPTIMIZER") == 1 and found.count("BACKWARD") == 3


def test_gan(main: Process) -> None:
    spans = section(main, "gan")
    found = kinds(spans, "BATCH")
    assert found.count("OPTIMIZER") == 6 and found.count("BACKWARD") == 6
    assert len({s.ident for s in spans if s.kind == "OPTIMIZER"}) == 2
    assert found.count("FORWARD") == 12  # both roots, each of their calls


def test_lbfgs(main: Process) -> None:
    spans = section(main, "lbfgs")
    steps = [s for s in spans if s.kind == "OPTIMIZER"]
    assert len(steps) == 3
    for kind in ("FORWARD", "BACKWARD"):
        inner = [s for s in spans if s.kind == kind]
        assert len(inner) >= 6
        assert all(any(o.start <= s.start and s.end <= o.end for o in steps) for s in inner)


def test_stream(main: Process) -> None:
    spans = section(main, "stream")
    waits = [s.flags for s in spans if s.kind == "DATA_WAIT"]
    assert waits == [1, 0, 0, 0, 2]
    assert [s.value for s in spans if s.kind == "BATCH"] == [2, 1]


def test_odd_batches(main: Process) -> None:
    assert [s.value for s in section(main, "odd batches") if s.kind == "BATCH"] == [3, 6]


def test_nested_loaders_and_models_in_the_data_are_one_wait(main: Process) -> None:
    spans = section(main, "nested")
    assert [s.flags for s in spans if s.kind == "DATA_WAIT"] == [1, 0, 0, 0, 2]
    assert not [s for s in spans if s.kind == "FORWARD"]


def test_only_copies_between_devices_count(main: Process) -> None:
    assert [(s.kind, s.value) for s in section(main, "copies")] == [("H2D", 2048)] * 2


def test_recomputed_forwards_are_backward(main: Process) -> None:
    found = kinds(section(main, "checkpointing"))
    assert found.count("BACKWARD") == 2 and found.count("FORWARD") == 2


def test_saving(main: Process) -> None:
    assert kinds(section(main, "saving")) == ["CHECKPOINT", "FSYNC"]


def test_other_threads_are_marked(main: Process) -> None:
    (span,) = section(main, "thread")
    assert span.kind == "FORWARD" and span.flags & 0x80
    assert not [s for s in section(main, "plain") if s.flags & 0x80]


def test_all_spans_make_sense(main: Process, tmp_path: Path) -> None:
    assert all(s.start <= s.end for s in main.spans)
    assert main.fact("exit") and main.fact("torch")[0]["version"].startswith("2.")
