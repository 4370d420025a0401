"""Checkpoints, loggers and collectives."""

from __future__ import annotations

from pathlib import Path

from hooked import both

from accelprof.hooks import wire


def test_distributed_and_safetensors(tmp_path: Path) -> None:
    site = tmp_path / "site" / "safetensors"
    site.mkdir(parents=True)
    (site / "__init__.py").touch()
    (site / "torch.py").write_text(
        "import torch\ndef save_file(tensors, name):\n    torch.save(tensors, name)\n"
    )
    script = """
        import os, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
        from safetensors.torch import save_file
        dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"),
                                rank=0, world_size=1)
        x = torch.ones(4)
        dist.all_reduce(x); dist.barrier(); dist.broadcast(x, 0)
        print(x.tolist())
        os.remove("meet") if os.path.exists("meet") else None
        dcp.save({"x": x}, checkpoint_id="saved")
        save_file({"x": x}, "x.safetensors")
        dist.destroy_process_group()
        import shutil; shutil.rmtree("saved")
    """
    _, ours = both(script, tmp_path, PYTHONPATH=str(tmp_path / "site"))
    main = ours.main()
    assert len(main.of("COLLECTIVE")) >= 3 and len(main.of("CHECKPOINT")) == 2
    assert not main.fact("hook_off")


def test_a_long_dump_to_a_file_is_a_checkpoint_but_not_within_a_loader(tmp_path: Path) -> None:
    script = """
        import io, pickle, _pickle, time, torch
        import joblib, numpy

        class Slow:
            def __reduce__(self):
                time.sleep(0.002)
                return Slow, ()

        with open("model.pkl", "wb") as file:
            pickle.dump(Slow(), file)
            pickle.dump("small", file)
        pickle.dump(Slow(), io.BytesIO())
        numpy.save("array.npy", numpy.array([Slow()]), allow_pickle=True)
        numpy.save(io.BytesIO(), numpy.array([Slow()]), allow_pickle=True)
        joblib.dump(Slow(), "model.joblib")
        print(pickle.loads(pickle.dumps(numpy.save)) is numpy.save, numpy.save.__module__)
        class Cached(torch.utils.data.Dataset):
            def __len__(self): return 1
            def __getitem__(self, at):
                with open("sample.pkl", "wb") as file:
                    pickle.dump([at, Slow()], file)
                return at
        print(next(iter(torch.utils.data.DataLoader(Cached()))))
        print(pickle.loads(pickle.dumps(pickle.dump)) is pickle.dump, _pickle.dump is pickle.dump)
        try:
            pickle.dump([Slow(), lambda: 0], open("x", "wb"))
        except Exception as error:
            print(type(error).__name__)
    """
    site = tmp_path / "site" / "joblib"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text("from .numpy_pickle import dump\n")
    (site / "numpy_pickle.py").write_text(
        "import pickle\ndef dump(value, filename):\n"
        "    with open(filename, 'wb') as file:\n        pickle.dump(value, file)\n"
    )
    _, ours = both(script, tmp_path, PYTHONPATH=str(site.parent))
    main = ours.main()
    # pickle, numpy (with pickle inside), joblib (the same), and the one that failed
    assert len(main.of("CHECKPOINT")) == 4 and not main.fact("hook_off")
    assert [bool(s.flags & wire.F_RAISED) for s in main.of("CHECKPOINT")] == [False] * 3 + [True]


def test_loggers(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name, text in {
        "tensorboardX/__init__.py": "from .writer import SummaryWriter\n",
        "tensorboardX/writer.py": (
            "class SummaryWriter:\n"
            "    def add_scalar(self, tag, value, step=None): print(tag, value, step)\n"
            "    def add_scalars(self, tag, values):\n"
            "        [self.add_scalar(tag + k, v) for k, v in values.items()]\n"
            "    def close(self): print('closed')\n"
        ),
        "wandb/__init__.py": (
            "from .sdk.wandb_run import Run\n"
            "def init():\n    global log\n    run = Run()\n    log = run.log\n    return run\n"
        ),
        "wandb/sdk/__init__.py": "",
        "wandb/sdk/wandb_run.py": "class Run:\n    def log(self, data): print('wandb', data)\n",
        "mlflow/__init__.py": "from .tracking.fluent import log_metric, log_metrics\n",
        "mlflow/tracking/__init__.py": "",
        "mlflow/tracking/fluent.py": (
            "def log_metric(key, value): print(key, value)\n"
            "def log_metrics(metrics): [log_metric(*m) for m in metrics.items()]\n"
        ),
    }.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    script = """
        import mlflow, torch, tensorboardX, wandb
        writer = tensorboardX.SummaryWriter()
        writer.add_scalar("a", 1, step=2); writer.add_scalars("b", {"x": 1, "y": 2}); writer.close()
        wandb.init().log({"a": 1}); wandb.log({"b": 2})
        mlflow.log_metric("m", 1); mlflow.log_metrics({"x": 1, "y": 2})
        print(mlflow.log_metric.__name__, wandb.Run.log.__qualname__)
    """
    _, ours = both(script, tmp_path, PYTHONPATH=str(site))
    main = ours.main()
    names = {f["id"]: f["name"] for f in main.fact("logger")}
    assert [names[s.ident] for s in main.of("LOGGING")] == (
        ["tensorboardX.SummaryWriter"] * 3 + ["wandb"] * 2 + ["mlflow"] * 2
    )
