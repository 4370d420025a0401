"""The NUMA node of a device against the cores that may be used, over a /sys of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelprof.profiler.collectors.numa import place


def write(root: Path, node: str, cpus: str) -> None:
    folder = root / "sys/bus/pci/devices/0000:c1:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{node}\n")
    (folder / "local_cpulist").write_text(f"{cpus}\n")


@pytest.mark.parametrize(
    ("node", "cpus", "usable", "expected"),
    [
        ("1", "32-63,96-127", {0, 1}, (1, True)),
        ("1", "32-63,96-127", {0, 100}, (1, False)),
        ("0", "0-7", set(range(8)), (0, False)),
        ("1", "8", {0}, (1, True)),
        ("0", "0-7", set(), (0, False)),  # not known what may be used
        ("1", "", {0}, (1, False)),
        ("1", "4-x", {0}, (1, False)),
        ("-1", "0-7", {9}, (None, False)),  # a virtual machine tells none
        ("many", "0-7", {9}, (None, False)),
    ],
)
def test_place(
    tmp_path: Path, node: str, cpus: str, usable: set[int], expected: tuple[int | None, bool]
) -> None:
    write(tmp_path, node, cpus)
    found = place("00000000:C1:00.0", usable, tmp_path)
    assert (found.get("numa_node"), "numa_note" in found) == expected
    if expected[1]:
        assert f"cores {cpus}" in found["numa_note"]


def test_a_host_that_says_nothing(tmp_path: Path) -> None:
    assert place("00000000:C1:00.0", {0}, tmp_path) == {}
    assert place("", {0}, tmp_path) == {}
