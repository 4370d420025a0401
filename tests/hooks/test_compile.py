"""torch.compile: the same graphs, breaks and recompiles with and without hooks."""

from __future__ import annotations

import json
from pathlib import Path

from hooked import run

JOB = """
import json, torch, torch._dynamo.utils as utils
from torch.utils.data import DataLoader, TensorDataset

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
        self.inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    def forward(self, x):
        return self.b(torch.relu(self.a(self.inner(x.to(torch.float32)))))

graphs = nodes = 0
results = {}

def backend(graph, inputs):
    global graphs, nodes
    graphs, nodes = graphs + 1, nodes + len(list(graph.graph.nodes))
    return graph.forward

def case(name):
    def decide(function):
        global graphs, nodes
        function()
        counters = utils.counters
        results[name] = {
            "graphs": graphs, "nodes": nodes,
            "captured": counters["stats"]["calls_captured"],
            "frames": dict(counters["frames"]),
            "breaks": sum(counters["graph_break"].values()),
            "recompiles": len(counters["recompiles"]) + len(counters["recompile_limit"]),
        }
        graphs = nodes = 0
        counters.clear()
        torch._dynamo.reset()
    return decide

loader = DataLoader(TensorDataset(torch.randn(16, 8)), batch_size=4)
full = {"backend": backend, "fullgraph": True}

def train(model, optimizer, call=None, step=None):
    for (x,) in loader:
        optimizer.zero_grad()
        (model if call is None else call)(x).sum().backward()
        (optimizer.step if step is None else step)()

@case("module")
def _():
    model = torch.compile(Net(), **full)
    train(model, torch.optim.Adam(model.parameters()))

@case("module that ran before")
def _():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer)
    train(model, optimizer, torch.compile(model, **full))
    train(model, optimizer)

@case("function with a module")
def _():
    model = Net()
    call = torch.compile(lambda x: model(x) * 2, **full)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), call)

@case("function with a module that ran before")
def _():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer)
    train(model, optimizer, torch.compile(lambda x: model(x) * 2, **full))

@case("compiled optimizer")
def _():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, step=torch.compile(lambda: optimizer.step(), backend=backend))

@case("compiled optimizer method")
def _():
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, step=torch.compile(optimizer.step, backend=backend))

@case("sequential")
def _():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    model(torch.randn(4, 8))
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.compile(model, **full))

@case("module.compile")
def _():
    model = Net()
    model(torch.randn(4, 8))
    model.compile(**full)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))

@case("whole step")
def _():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    @torch.compile(backend=backend)
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    for (x,) in loader:
        step(x)

@case("copies")
def _():
    torch.compile(lambda x: (x.to("meta"), x.to(torch.float64), x.cpu() + 1), **full)(torch.ones(3))

@case("gradients and saving")
def _():
    @torch.compile(backend=backend)
    def work(x):
        y = (x * x).sum()
        torch.save(x, "/dev/null")
        return torch.autograd.grad(y, x)[0] + 1
    work(torch.ones(3, requires_grad=True))

@case("collective")
def _():
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    @torch.compile(**full)
    def work(x):
        y = x * 2
        dist.all_reduce(y)
        return y + 1
    work(torch.ones(3))
    dist.destroy_process_group()

print(json.dumps(results))
"""


def test_counters_are_equal(tmp_path: Path) -> None:
    plain = run(JOB, tmp_path, hooks=False)
    ours = run(JOB, tmp_path)
    assert json.loads(ours.out) == json.loads(plain.out)
    # One line of torch's own log carries the time and the number of a frame
    assert len(ours.err.splitlines()) == len(plain.err.splitlines())
    main = ours.main()
    assert not main.fact("hook_off")
    # 12 epochs of 4 batches step an optimizer, compiled or not
    assert len(main.of("OPTIMIZER")) == 4 * 12
    # The model of a compiled function is inside of its graph
    assert len({s.ident for s in main.of("FORWARD")}) >= 5
