"""What the training thread was doing, from its sampled stacks: for time that no span covers.

A stack is read from its innermost frame outwards; the first frame that says something decides.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from .function_names import own_name, purpose
from .model import StackShares

_FRAME = re.compile(r"^(?P<function>.*) \((?P<file>.*?)(?::(?P<line>\d+))?\)$")

# By module path; the order matters: a pickle inside torch.save is a checkpoint
_LIBRARIES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("loader", re.compile(r"torch/utils/data/|torchdata/|/accelerate/data_loader")),
    ("checkpoint", re.compile(
        r"torch/serialization|torch/distributed/checkpoint|safetensors|(^|/)pickle\.py"
        r"|numpy/lib/.*(npyio|format)|joblib/numpy_pickle")),
    ("logging", re.compile(
        r"/wandb/|/mlflow/|tensorboard|/tqdm/|(^|/)logging/|/matplotlib/|/rich/|/neptune/|/clearml/")),
    ("input", re.compile(
        r"/PIL/|/cv2/|/imageio|(^|/)(zlib|gzip|bz2|lzma|zipfile|tarfile|csv|socket|ssl)(\.py|/)"
        r"|(^|/)json/|/h5py/|/pandas/|/pyarrow/|/datasets/|/webdataset/|torchvision/(transforms|io)"
        r"|torchaudio|/requests/|urllib|/boto|/fsspec/|/s3fs/|/tokenizers/|/albumentations/"
        r"|transformers/.*(tokeniz|image_process)|/librosa/|/soundfile|/nltk/|/spacy/")),
    ("model", re.compile(
        r"torch/(nn|autograd|optim|_tensor|amp|_dynamo|_inductor|fx|functional|_ops|_compile)")),
)  # fmt: skip
_STEP = re.compile(r"torch/(autograd/(graph|__init__)|optim/|_tensor)")
# Code that talks to a remote store
_REMOTE = re.compile(
    r"(^|/)(socket|ssl|http|urllib|ftplib)(\.py|/)|/(requests|urllib3|httpx|aiohttp|boto3|botocore"
    r"|s3transfer|s3fs|gcsfs|adlfs|fsspec|smart_open|paramiko|google/(cloud|api_core|resumable_media)"
    r"|azure|minio|hdfs|huggingface_hub)/"
)
# Every compilation passes here, and no call of compiled code does
_COMPILING = re.compile(r"torch/_dynamo/(convert_frame|symbolic_convert)\.py|\bbw_compiler\b")
# The innermost function of a thread that waits
_RESTS = re.compile(
    r"^(wait|acquire|_?wait_for_tstate_lock|select|poll|_poll|epoll|accept|recv|recv_into|recvfrom"
    r"|recv_bytes|_recv|_recv_bytes|_recvmsg|readinto|read|readline|sleep|get|put|join|_wait_.*|flush)$"
)
# A library that writes makes no batch: metrics as JSON, a compressed dump
_WRITES = re.compile(
    r"^_?(write\w*|dumps?|iterencode|_iterencode\w*|save\w*|to_(csv|json|parquet|pickle|hdf|sql)"
    r"|send|sendall|post|put|upload\w*|compress|writestr|flush|fsync)$"
)
_HIDDEN = re.compile(r"<frozen|importlib|threading\.py|runpy\.py|contextlib\.py|_contextlib\.py")


def parse(frame: str) -> tuple[str, str, str]:
    """(function, file, line) of "function (file:line)"."""
    match = _FRAME.match(frame.strip())
    if match is None:
        return frame.strip(), "", ""
    return match["function"], match["file"], match["line"] or ""


def _is_library(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file or "/lib/python3" in file or (
        not file or file.startswith("<frozen")
    )  # fmt: skip


def classify(frames: str) -> tuple[str, str]:
    """(category, the innermost frame of the user's own code as "file:line function").

    Categories: loader, input, model, logging, checkpoint, evaluation, user (the user's own code
    that no name tells more about).
    """
    parsed = [parse(frame) for frame in frames.split(";")]
    writes = any(_is_library(file) and _WRITES.match(own_name(f)) for f, file, _ in parsed)
    category = "user"
    for function, file, _ in reversed(parsed):
        if _HIDDEN.search(file):
            continue
        found = _of_frame(function, file)
        if found == "input" and writes and _is_library(file):
            continue
        if found:
            category = found
            break
    if any(_LIBRARIES[0][1].search(file) for _, file, _ in parsed):
        category = "loader"
    elif category in ("input", "user", "model"):
        category = _outer(parsed) or category
    place = ""
    for function, file, line in reversed(parsed):
        if not _is_library(file):
            place = f"{file}:{line} {function}" if line else f"{file} {function}"
            break
    return category, place


def _of_frame(function: str, file: str) -> str | None:
    for category, pattern in _LIBRARIES:
        if pattern.search(file):
            return category
    return None if _is_library(file) else purpose(function)


def _outer(parsed: list[tuple[str, str, str]]) -> str | None:
    """Evaluation, checkpoints, logging and the model own what they call, whatever it is named."""
    for function, file, _ in parsed:
        if _is_library(file):
            continue
        if (found := purpose(function)) in ("checkpoint", "evaluation", "logging"):
            return found
    if any(own_name(f) == "forward" or "torch/nn/modules" in file for f, file, _ in parsed):
        return "model"
    return None


# Places that are told apart, and the category that they are samples of
PART_OF = {"in-loader": "loader", "step": "model"}


def _kept_as(category: str, frames: str) -> str:
    """The user's code inside the loader is its sampler (or, without workers, the data set); a line
    that calls backward or the optimizer is the step itself, not Python beside it."""
    files = [parse(frame)[1] for frame in frames.split(";")]
    if category == "loader":
        inside = max(i for i, file in enumerate(files) if _LIBRARIES[0][1].search(file))
        return "in-loader" if any(not _is_library(file) for file in files[inside:]) else category
    if category == "model":
        own = max((i for i, file in enumerate(files) if not _is_library(file)), default=0)
        if any(_STEP.search(file) for file in files[own + 1 :]):
            return "step"
    return category


def waits_for_work(frames: str) -> bool:
    """Whether a loader worker stands in the queue that gives it its next index."""
    return "multiprocessing/queues.py" in frames and "Queue.get" in frames


def is_remote(frames: str) -> bool:
    """Whether a stack stands in code that talks to the network."""
    return any(_REMOTE.search(parse(frame)[1]) for frame in frames.split(";"))


def is_compiling(frames: str) -> bool:
    """Whether a stack stands in torch.compile's compiler, not in code that it compiled."""
    return bool(_COMPILING.search(frames))


def rests(frames: str) -> bool:
    """Whether a thread waits for something rather than run Python."""
    function, _, _ = parse(frames.rpartition(";")[2])
    return bool(_RESTS.match(own_name(function)))


def summarise(rows: Iterable[tuple[str, int]]) -> StackShares:
    """Shares by category and the places they come from, of (frames, samples) rows."""
    counts: Counter[str] = Counter()
    places: dict[str, Counter[str]] = defaultdict(Counter)
    remote = compiling = 0
    for frames, samples in rows:
        remote += samples if is_remote(frames) else 0
        compiling += samples if is_compiling(frames) else 0
        category, place = classify(frames)
        counts[category] += samples
        if place:
            places[_kept_as(category, frames)][place] += samples
    total = sum(counts.values())
    if not total:
        return StackShares()
    hot = {
        category: [
            (place, n / counts[PART_OF.get(category, category)])
            for place, n in found.most_common(5)
        ]
        for category, found in places.items()
    }
    return StackShares(
        total, {k: n / total for k, n in counts.items()}, hot, remote / total, compiling / total
    )
