"""Writes spool files as the hooks do, and as they never should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from accelprof.hooks import wire

OFFSET = 1_700_000_000_000_000_000
CAPACITY = 1024


class Ring:
    """A ring file with a writer's view; plain file writes, so that a test owns each byte."""

    def __init__(
        self,
        folder: Path,
        pid: int = 4242,
        *,
        capacity: int = CAPACITY,
        version: int = wire.VERSION,
        start: int = 0x17C0FFEE,
    ) -> None:
        self.process = f"{pid}-{start:x}"
        self.path = folder / f"{self.process}.ring"
        self.facts = folder / f"{self.process}.facts"
        self.capacity = capacity
        self.sequence = 0
        header = wire.HEADER.pack(wire.MAGIC, version, capacity, pid, OFFSET)
        size = wire.HEADER_SIZE + capacity * wire.RECORD_SIZE
        self.path.write_bytes(header + bytes(size - len(header)))

    def write(self, kind: int, start: int, duration: int, *, flags=0, ident=0, value=0) -> None:
        self.sequence += 1
        meta = (
            kind | flags << wire.FLAG_SHIFT | ident << wire.IDENT_SHIFT | value << wire.VALUE_SHIFT
        )
        self.put(self.sequence, wire.RECORD.pack(start, duration, meta, self.sequence))

    def put(self, sequence: int, record: bytes) -> None:
        slot = sequence & (self.capacity - 1)
        with open(self.path, "r+b") as file:
            file.seek(wire.HEADER_SIZE + slot * wire.RECORD_SIZE)
            file.write(record)

    def fact(self, kind: str, **values: Any) -> None:
        with open(self.facts, "a", encoding="utf-8") as file:
            file.write(json.dumps({"k": kind, **values}) + "\n")
