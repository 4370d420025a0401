"""What gets hooked, once torch is imported: one file a family, listed here and nowhere else."""

import importlib
import os
import sys

from .. import facts, postimport, skipping, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# (module that must be there, file here, function in it that gets the module)
HOOKS = (
    ("torch.nn.modules.module", "modules", "install"),
    ("torch._dynamo", "modules", "install_dynamo"),
    ("torch.jit._recursive", "modules", "install_script"),
    ("torch.utils.data.dataloader", "loader", "install"),
    ("torchdata.stateful_dataloader.stateful_dataloader", "loader", "install_stateful"),
    ("torch.autograd", "training", "install_backward"),
    ("torch.optim.optimizer", "training", "install_optimizer"),
    ("torch._tensor", "copies", "install"),
    ("torch.serialization", "saving", "install_save"),
    ("torch.distributed.checkpoint", "saving", "install_distributed"),
    ("safetensors.torch", "saving", "install_safetensors"),
    ("transformers.modeling_utils", "saving", "install_transformers"),
    ("pickle", "saving", "install_pickle"),
    ("numpy", "saving", "install_numpy"),
    ("joblib", "saving", "install_joblib"),
    ("os", "saving", "install_sync"),
    ("torch.cuda", "allocator", "install"),
    ("torch.utils.tensorboard.writer", "loggers", "install_writer"),
    ("tensorboardX.writer", "loggers", "install_writer"),
    ("wandb.sdk.wandb_run", "loggers", "install_wandb"),
    ("mlflow.tracking.fluent", "loggers", "install_mlflow"),
    ("tqdm.std", "loggers", "install_tqdm"),
    ("torch.distributed.distributed_c10d", "collectives", "install"),
    ("torch.nn.parallel.distributed", "collectives", "install_ddp"),
    ("torch.nn.parallel.data_parallel", "collectives", "install_data_parallel"),
    ("keras.src.optimizers.base_optimizer", "keras", "install"),
    ("gc", "collector", "install"),
    ("torch.autograd.profiler", "profilers", "install_autograd"),
    ("torch.cuda.graphs", "graphs", "install"),
    ("torch.profiler.profiler", "profilers", "install_profiler"),
)
# Only in a trial of `accelprof tune`: these change what the job does. After `loader`, whose wrapper
# then sees the loader as the trial has it.
TRIAL_HOOKS = (
    ("torch.utils.data.dataloader", "overrides", "install"),
    ("torchdata.stateful_dataloader.stateful_dataloader", "overrides", "install_loader"),
)


def install(torch: "Any") -> None:
    """Puts every hook in whose module is there, and waits for the others."""
    skipping.start()
    version = getattr(torch, "version", None)
    facts.fact(
        "torch",
        version=str(torch.__version__),
        cuda=getattr(version, "cuda", None),
    )
    trial = TRIAL_HOOKS if os.environ.get(wire.ENV_TUNE) else ()
    for module, file, function in HOOKS + trial:
        postimport.finder.watch(module, _installer(file, function))


def _installer(file: str, function: str) -> "Any":
    def after(module: "Any") -> None:
        try:
            name = f"{__name__}.{file}"
            getattr(sys.modules.get(name) or importlib.import_module(name), function)(module)
        except Exception as error:
            facts.fact("hook_off", hook=file, error=f"{type(error).__name__}: {error}"[:300])

    return after
