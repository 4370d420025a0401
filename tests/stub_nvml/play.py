"""Plays scenarios: scripts of the stub, sampled in a child process by the real nvidia-ml-py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .build import environment
from .cards import Card

DRIVE = Path(__file__).with_name("drive.py")
COLUMNS = [
    "t_ns", "device", "busy_share", "memory_busy_share", "sm_share", "tensor_share", "dram_share",
    "occupancy_share", "memory_used_bytes", "memory_total_bytes", "sm_clock_hz", "memory_clock_hz",
    "power_w", "power_limit_w", "energy_j", "temperature_c", "throttle_bits", "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s", "pcie_generation", "pcie_width",
]  # fmt: skip


@dataclass
class Scenario:
    """Cards, and the script times at which they are sampled. `head`: lines before the cards."""

    cards: Sequence[Card]
    times: Sequence[float] = (5.0, 5.5, 6.0)
    head: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def plan(self) -> dict[str, Any]:
        lines = [*self.head, *(line for card in self.cards for line in card.lines())]
        plan = {"lines": lines, "times": self.times, "environment": self.environment}
        return {**plan, "options": self.options}


@dataclass
class Played:
    """What the child saw of one scenario."""

    failure: str | None
    rows: list[list[Any]]

    def table(self, name: str) -> list[Any]:
        return [row for table, row in self.rows if table == name]

    def samples(self, device: int) -> list[dict[str, Any]]:
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in self.table("device_sample")]
        return [row for row in rows if row["device"] == device]

    def last(self, device: int) -> dict[str, Any]:
        return self.samples(device)[-1]

    def gaps(self, device: int | None) -> dict[str, str]:
        return {row[2]: row[4] for row in self.table("gap") if row[3] == device}

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [json.loads(row[4]) for row in self.table("event") if row[1] == kind]

    def devices(self) -> dict[int, tuple[Any, ...]]:
        return {row[0]: (*row[1:6], json.loads(row[6])) for row in self.table("device")}


def play_all(library: Path, folder: Path, scenarios: dict[str, Scenario]) -> dict[str, Played]:
    """All scenarios in one child: a new process each would take most of the time."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / "plan.json"
    plan.write_text(json.dumps({name: s.plan() for name, s in scenarios.items()}), "utf-8")
    result = subprocess.run(
        [sys.executable, str(DRIVE), str(plan)],
        env=environment(library, folder / "script"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    told = json.loads(result.stdout)
    return {name: Played(**told[name]) for name in scenarios}
