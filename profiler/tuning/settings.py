"""What a trial may set: names, values, defaults by the machine, and how each looks in code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ..errors import UserError

Settings = dict[str, Any]
MOST_COMBINATIONS = 16
MOST_WORKERS = 64  # a process each: beyond, a loader needs another remedy
MOST_COUNT = 1024  # beyond it is a slip of the pen
PRECISIONS = ("highest", "high", "medium")


@dataclass(frozen=True)
class Key:
    """One setting: `of_loader` is an argument of DataLoader, the others are calls of torch."""

    name: str
    parse: Callable[[str], Any]
    of_loader: bool
    code: str = ""  # the statement that sets it, for what is no argument
    warning: str = ""


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= MOST_COUNT:
            raise ValueError(f"a whole number from {least} to {MOST_COUNT}")
        return int(text)

    return parse


def _flag(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in known:
        raise ValueError("true or false")
    return known[text.lower()]


def _precision(text: str) -> str:
    if text not in PRECISIONS:
        raise ValueError(", ".join(PRECISIONS))
    return text


KEYS = {
    key.name: key
    for key in (
        Key("num_workers", _count(0), True),
        Key("prefetch_factor", _count(1), True),
        Key("persistent_workers", _flag, True),
        Key("pin_memory", _flag, True),
        Key("main_threads", _count(1), False, "torch.set_num_threads({})"),
        Key(
            "worker_threads", _count(1), False,
            "torch.set_num_threads({})  # in the loader's worker_init_fn",
        ),
        Key("cudnn_benchmark", _flag, False, "torch.backends.cudnn.benchmark = {}"),
        Key(
            "matmul_precision", _precision, False, "torch.set_float32_matmul_precision({!r})",
            "matmul_precision changes numerics: compare the loss before you keep it",
        ),
    )
}  # fmt: skip


def parse_tries(tries: Sequence[str]) -> dict[str, list[Any]]:
    """`num_workers=2,4` and so on. UserError names what is wrong."""
    wanted: dict[str, list[Any]] = {}
    for text in tries:
        name, equals, values = text.partition("=")
        if name == "batch_size":
            raise UserError("--try batch_size: it changes what is trained, so tune leaves it alone")
        if name not in KEYS or not equals:
            raise UserError(f"--try {text}: write KEY=VALUE,..., KEY one of {', '.join(KEYS)}")
        for value in values.split(","):
            try:
                parsed = KEYS[name].parse(value.strip())
            except ValueError as error:
                raise UserError(f"--try {text}: {name} is {error}") from None
            if parsed not in wanted.setdefault(name, []):
                wanted[name].append(parsed)
    return wanted


def combinations(wanted: dict[str, list[Any]]) -> list[Settings]:
    """Every combination that makes sense; UserError when they are too many to measure."""
    if not wanted:
        return []
    made = [dict(zip(wanted, values, strict=True)) for values in product(*wanted.values())]
    made = [s for n, s in enumerate(map(sensible, made)) if s and s not in made[:n]]
    unique = [s for n, s in enumerate(made) if s not in made[:n]]
    if len(unique) > MOST_COMBINATIONS:
        raise UserError(
            f"--try: {len(unique)} combinations are too many to measure; at most "
            f"{MOST_COMBINATIONS}, or tune one setting after the other"
        )
    return unique


def sensible(settings: Settings) -> Settings:
    """Without what has no meaning in a loader without workers."""
    if settings.get("num_workers") != 0:
        return settings
    return {k: v for k, v in settings.items() if k not in ("prefetch_factor", "persistent_workers")}


def worker_counts(cores: float, present: int) -> list[int]:
    """The first round: a power of two each, up to twice the usable cores, 4 at least."""
    most = max(4, int(2 * cores))
    counts = [0, 1, 2]
    while counts[-1] * 2 <= min(most, MOST_WORKERS):
        counts.append(counts[-1] * 2)
    return [n for n in counts if n != present]


def label(settings: Settings) -> str:
    """`num_workers=4 pin_memory=True`; the job's own settings are "as it is"."""
    return " ".join(f"{k}={v}" for k, v in settings.items()) or "as it is"


def loader_part(settings: Settings) -> Settings:
    """What are arguments of the DataLoader."""
    return {k: v for k, v in settings.items() if KEYS[k].of_loader}


def overrides(settings: Settings, where: str | None, replay: bool) -> dict[str, Any]:
    """What the hooks are to put in: see hooks/frameworks/overrides.py."""
    if not settings and not replay:
        return {}
    rest = {k: v for k, v in settings.items() if not KEYS[k].of_loader}
    return {"where": where, "replay": replay, "loader": loader_part(settings), **rest}


def statements(settings: Settings) -> list[str]:
    """The lines to add for what is no argument of a DataLoader."""
    return [KEYS[k].code.format(v) for k, v in settings.items() if not KEYS[k].of_loader]


def warnings(settings: Iterable[str]) -> list[str]:
    """What a user has to know of these settings."""
    return [KEYS[name].warning for name in settings if KEYS[name].warning]
