"""The job's objects and errors are what they are without hooks."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hooked import both

MODELS = """
    import copy, gc, io, inspect, pickle, weakref
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, scale=1.0):
            super().__init__()
            self.layer, self.scale = nn.Linear(4, 2), scale
        def forward(self, x):
            return self.layer(x) * self.scale

    class Whole(Net):
        def __getstate__(self):
            return self.__dict__

    torch.manual_seed(0)
    x = torch.randn(3, 4)
    for cls in (Net, Whole):
        net = cls()
        before = net(x)
        for made in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            made.scale = 2.0
            print(torch.equal(made(x), before * 2), torch.equal(net(x), before))
            print(torch.equal(made(x), before * 2), sorted(k for k in vars(made) if k[0] != "_"))
        file = io.BytesIO()
        torch.save(net, file)
        file.seek(0)
        print(torch.equal(torch.load(file, weights_only=False)(x), before))

    # A dictionary copied by hand, as DataParallel makes its replicas
    other = Net.__new__(Net)
    other.__dict__.update(net.__dict__)
    other.scale = 3.0
    print(torch.equal(other(x), before * 3), torch.equal(other(x), before * 3))
    class Twice(Net):
        def forward(self, x):
            return super().forward(x) * 2
    twin = Twice.__new__(Twice)
    twin.__dict__ = net.__dict__  # the same dictionary
    print(torch.equal(twin(x), before * 2), torch.equal(net(x), before))
    print(torch.equal(twin(x), before * 2))
    del twin
    replica = net._replicate_for_data_parallel()
    replica.scale = 4.0
    replica.layer = net.layer
    print(torch.equal(replica(x), before * 4))

    gc.disable()
    net = Net()
    net(x).sum().backward()
    alive = weakref.ref(net)
    del net
    print("freed at once:", alive() is None)
    gc.enable()

    net = Net()
    net(x)
    print(torch.jit.script(nn.Sequential(net))(x).shape, torch.jit.script(net)(x).shape)
    print(torch.jit.trace(net, x)(x).shape, torch.fx.symbolic_trace(net).code)
    print(torch.export.export(net, (x,)).graph_module.code)
    print(torch.func.functional_call(net, dict(net.named_parameters()), (x,)).shape)
    print(torch.vmap(net)(x).shape, list(net.state_dict()), net)

    # Overriding functions of tensors by identity
    seen = []
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function is torch.Tensor.to:
                seen.append("to")
            if function is torch.Tensor.cpu:
                seen.append("cpu")
            return super().__torch_function__(function, types, args, kwargs or {})
    mine = torch.ones(2).as_subclass(Mine)
    print(type(mine.to(torch.float64)).__name__, type(mine.cpu()).__name__, seen)
    print(torch.overrides.is_tensor_method_or_property(torch.Tensor.to))
"""

OTHERS = """
    import copy, inspect, pickle, torch
    import torch.distributed
    from torch.utils.data import DataLoader, _utils

    for f in (torch.save, torch.autograd.backward, torch.autograd.grad, DataLoader.__init__,
              DataLoader.__iter__, torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
              torch.distributed.all_reduce, torch.profiler.profile.__init__,
              torch.autograd.profiler.profile.__init__, torch.optim.SGD.step):
        print(f.__module__, f.__qualname__, inspect.signature(f))
        if "." not in f.__qualname__:
            print(pickle.loads(pickle.dumps(f)) is f, inspect.getsource(f)[:60])
    print(torch.serialization.save is torch.save)

    loader = DataLoader(torch.arange(6.0).reshape(6, 1), batch_size=2)
    iterator = iter(loader)
    next(iterator)
    same = pickle.loads(pickle.dumps(copy.deepcopy(loader)))
    print([b.tolist() for b in same], len(loader))

    p = torch.nn.Parameter(torch.ones(2))
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)
    for cls in (torch.optim.SGD, torch.optim.Adam, Own):
        optimizer = cls([p], lr=0.1)
        p.sum().backward()
        optimizer.step()
        again = pickle.loads(pickle.dumps(copy.deepcopy(optimizer)))
        again.step()
        print(type(again).__name__, again.state_dict()["param_groups"][0]["lr"])
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        optimizer.step(); schedule.step()
        print(optimizer, inspect.signature(cls.step))
    print(p.tolist())
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(p.sum()).backward(); scaler.step(optimizer); scaler.update()
    print(p.tolist())
"""

ERRORS = """
    import torch, sys
    from torch.utils.data import DataLoader

    class Net(torch.nn.Module):
        def forward(self, x):
            raise RuntimeError("mine")

    class Bad:
        def __len__(self):
            return 3
        def __getitem__(self, n):
            raise IndexError("data")

    def show(function):
        import traceback
        for _ in range(2):
            try:
                function()
            except Exception:
                print(traceback.format_exc())

    p = torch.nn.Parameter(torch.ones(1))
    class Opt(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("step")
    net, opt = Net(), Opt([p], lr=1)
    loss = torch.ones(1)
    show(lambda: net(1))
    show(lambda: next(iter(DataLoader(Bad()))))
    show(lambda: loss.backward())
    show(lambda: torch.autograd.grad(loss, p))
    show(lambda: opt.step())
    show(lambda: torch.save(p, "/not/there"))
    show(lambda: p.to("nowhere"))
    show(lambda: DataLoader(Bad(), batch_size=-1))
    show(lambda: torch.distributed.all_reduce(p))
    import os
    show(lambda: os.fsync(9999))
"""


def without_the_line_of_the_root(text: str) -> str:
    """Which of two lines of torch's own `_wrapped_call_impl` calls a root is all that differs."""
    return re.sub(r"line \d+, in _wrapped_call_impl\n.*\n.*\n", "in _wrapped_call_impl\n", text)


ENDS = {
    "exception": ("net(1)", 1),
    "exit": ("sys.exit(3)", 3),
    "text": ("sys.exit('text')", 1),
    "os._exit": ("os._exit(4)", 4),
    "kill": ("os.kill(os.getpid(), 9)", -9),
    "segv": ("os.kill(os.getpid(), 11)", -11),
    "term": ("os.kill(os.getpid(), 15)", -15),
}


def test_models(tmp_path: Path) -> None:
    _, ours = both(MODELS, tmp_path)
    assert "False" not in ours.out.replace("bias=False", "")
    main = ours.main()
    assert not main.fact("hook_off") and main.of("FORWARD")


def test_loaders_optimizers_and_functions(tmp_path: Path) -> None:
    _, ours = both(OTHERS, tmp_path)
    assert not ours.main().fact("hook_off")


def test_tracebacks_are_the_jobs_own(tmp_path: Path) -> None:
    _, ours = both(ERRORS, tmp_path, same=without_the_line_of_the_root)
    main = ours.main()
    assert not main.fact("hook_off")
    raised = {s.kind for s in main.spans if s.flags & 0x40}
    assert raised == {
        "FORWARD", "DATA_WAIT", "BACKWARD", "OPTIMIZER", "CHECKPOINT", "FSYNC", "COLLECTIVE",
    }  # fmt: skip


def test_ends(tmp_path: Path) -> None:
    """How a process ends after all its hooks were in use."""
    script = """
        import os, sys, torch
        class Net(torch.nn.Module):
            def forward(self, x):
                if x == 1:
                    raise RuntimeError("mine")
        net = Net(); net(0)
        WAYS = {WAYS}
        for way in WAYS[:-1]:
            if os.fork() == 0:
                eval(way)
            print(os.wait()[1], flush=True)
        eval(WAYS[-1])
    """.replace("{WAYS}", repr([way for way, _ in ENDS.values()][::-1]))
    plain, _ = both(script, tmp_path, status=None, same=without_the_line_of_the_root)
    assert plain.status == 1 and "mine" in plain.err
    assert os.waitstatus_to_exitcode(int(plain.out.split()[0])) == -15
