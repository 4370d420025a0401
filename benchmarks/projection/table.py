"""Public throughput tables: rows as seconds a step, and which rows may be compared."""

from __future__ import annotations

import csv
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from accelprof.profiler.accelerators.catalogue import Accelerator, catalogue

PER_ITEM = {"images/s", "sequences/s", "samples/s"}
PER_TOKEN = {"tokens/s", "tokens/s/device"}
PER_TIME = {"ms/batch": 1e-3, "s/batch": 1.0}
# Tokens that one sequence adds to a step, by the shape's text. Training and encoding take whole
# sequences, prompts are read in blocks, generation makes one token after the other.
TOKENS = (
    (re.compile(r"(?:seq|tgt)(\d+)(?:-mem\d+)?"), None),
    (re.compile(r"pp\d+"), 512),
    (re.compile(r"tg\d+|maxlen\d+-.*|(?:beamsearch|sampling)[\d.]+"), 1),
)
NEEDED = ("workload", "task", "accelerator_id", "batch_per_device", "precision", "value", "unit")
COLUMNS = (
    *NEEDED, "framework", "library_version", "accelerator_count", "input_shape", "source", "as_of",
    "notes",
)  # fmt: skip
MOST = 1e15  # of any number of the table
FRAMES = 64  # of a spectrum that the model of networks.py makes in a step


@dataclass(frozen=True)
class Row:
    workload: str
    task: str
    framework: str
    library: str
    accelerator: str
    count: int
    batch: int  # per device
    precision: str
    shape: str
    value: float
    unit: str
    source: str
    as_of: str
    doubtful: bool

    @property
    def key(self) -> tuple[str, ...]:
        """Rows of equal key may be compared across accelerators."""
        return (
            self.workload, self.task, self.framework, str(self.batch), self.precision,
            self.shape, self.unit, str(self.count),
        )  # fmt: skip

    @property
    def origin(self) -> str:
        """The source without its revision and file: rows of one test series share it."""
        return self.source.partition("@")[0].partition(":")[0]

    @property
    def step_s(self) -> float | None:
        """Seconds of one step of `batch` on every device; None for a unit that says too little."""
        if self.unit in PER_TIME:
            return self.value * PER_TIME[self.unit]
        if self.unit in PER_ITEM:
            return self.batch * self.count / self.value
        if self.unit in PER_TOKEN:
            return self._token_step_s()
        if self.unit == "mels/s":
            return self.batch * self.count * FRAMES / self.value
        if self.unit == "iterations/s":
            return 1.0 / self.value  # of the whole batch
        return None

    def _token_step_s(self) -> float | None:
        for shape, tokens in TOKENS:
            found = shape.fullmatch(self.shape)
            if found is not None:
                each = tokens or int(found[1])
                return self.batch * each * self._side_by_side / self.value
        return None

    @property
    def _side_by_side(self) -> int:
        """Devices that work on sequences of their own; llama.cpp's take turns, layer by layer."""
        return 1 if self.unit.endswith("/device") or self.framework == "llama.cpp" else self.count


def read(path: Path) -> tuple[list[Row], int]:
    """(usable rows, number of rows left out: doubtful, without figures, or not understood)."""
    rows: list[Row] = []
    left = 0
    with path.open(newline="", encoding="utf-8-sig") as file:
        table = csv.DictReader(file)
        lacking = [name for name in NEEDED if name not in (table.fieldnames or ())]
        if lacking:
            raise ValueError(f"it has no column {', '.join(lacking)}")
        for raw in table:
            row = _row({name: (raw.get(name) or "").strip() for name in COLUMNS})
            if row is None or row.doubtful:
                left += 1
            else:
                rows.append(row)
    return rows, left


def _row(raw: dict[str, str]) -> Row | None:
    try:
        value, batch = float(raw["value"]), float(raw["batch_per_device"])
        count = float(raw["accelerator_count"] or 1)
    except ValueError:
        return None
    if not all(0 < number < MOST for number in (value, batch, count)) or not raw["workload"]:
        return None
    if int(batch) < 1 or int(count) < 1:
        return None
    return Row(
        raw["workload"], raw["task"].lower(), raw["framework"].lower(), raw["library_version"],
        raw["accelerator_id"], int(count), int(batch), raw["precision"].lower(),
        raw["input_shape"].lower(), value, raw["unit"], raw["source"], raw["as_of"],
        "doubtful" in raw["notes"].lower(),
    )  # fmt: skip


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _cards() -> dict[str, Accelerator]:
    known: dict[str, Accelerator] = {}
    for item in catalogue().values():
        for name in (item.id, item.id.removesuffix("gb"), item.name, *item.aliases):
            known.setdefault(_plain(name), item)
    extra = tomllib.loads((Path(__file__).parent / "accelerators.toml").read_text("utf-8"))
    for key, row in extra.items():
        known[_plain(key)] = Accelerator(
            id=key, vendor="NVIDIA", kind="gpu", sources=["accelerators.toml"], **row
        )
    return known


def accelerator(name: str) -> Accelerator | None:
    """The card that a table calls so, from the catalogue or the table of further cards."""
    cards = _cards()
    # the tables add the memory size where the catalogue has one variant only (gb200-186)
    return cards.get(_plain(name)) or cards.get(_plain(re.sub(r"-\d{2,3}$", "", name)))
