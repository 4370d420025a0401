"""Reads a spool for the tests of the hooks, without the profiler's reader."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from accelprof.hooks import wire

KINDS = {
    value: name
    for name, value in vars(wire).items()
    if isinstance(value, int) and name.isupper() and name in {
        "DATA_WAIT", "BATCH", "FETCH", "COLLATE", "H2D", "FORWARD", "BACKWARD", "OPTIMIZER",
        "CHECKPOINT", "FSYNC", "LOGGING", "EVALUATION", "COLLECTIVE", "STEP_MARK", "SAMPLES",
        "PHASE", "CAPTURE", "GC", "DEVICE",
    }
}  # fmt: skip


class Span(NamedTuple):
    kind: str
    start: int
    end: int
    flags: int
    ident: int
    value: int


@dataclass
class Process:
    """One process of a spool: its facts and, in the order written, its spans."""

    name: str
    facts: list[dict[str, Any]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    def fact(self, kind: str) -> list[dict[str, Any]]:
        return [f for f in self.facts if f["k"] == kind]

    def of(self, *kinds: str) -> list[Span]:
        return [s for s in self.spans if s.kind in kinds]

    @property
    def is_worker(self) -> bool:
        return bool(self.fact(wire.FACT_WORKER))


def read(folder: Path) -> list[Process]:
    """All processes, oldest first."""
    found = []
    for path in sorted(folder.glob("*.facts"), key=lambda p: int(p.stem.split("-")[1], 16)):
        process = Process(path.stem)
        process.facts = [json.loads(line) for line in path.read_text().splitlines()]
        ring = path.with_suffix(".ring")
        if ring.exists():
            process.spans = _spans(ring.read_bytes())
        found.append(process)
    return found


def _spans(data: bytes) -> list[Span]:
    magic, version, capacity, _, _ = wire.HEADER.unpack_from(data)
    assert magic == wire.MAGIC and version == wire.VERSION
    records = sorted(
        (r for r in wire.RECORD.iter_unpack(data[wire.HEADER_SIZE :]) if r[3]), key=lambda r: r[3]
    )
    assert len({r[3] for r in records}) == len(records) <= capacity
    return [
        Span(KINDS[m & 0xFF], start, start + length, m >> 8 & 0xFF, m >> 16 & 0xFFFF, m >> 32)
        for start, length, m, _ in records
    ]
