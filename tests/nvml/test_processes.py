"""Whose processes are on the device: across PID namespaces nothing is claimed."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelprof.profiler.collectors.nvml_processes import (
    Use,
    attribute,
    in_initial_namespace,
    start_ticks,
)

JOB = {324, 325}
STARTS = {324: 1000, 325: 1010, 77: 10, 900: 2000}


@pytest.mark.parametrize(
    ("host_pids", "pids", "expected", "known"),
    [
        (True, [324, 325], [True, True], True),
        (True, [324, 77], [True, False], True),  # ran before the job: certainly not its child
        (True, [324, 900], [True, None], False),  # came later, not in the tree: who knows
        (True, [324, 4242], [True, None], False),  # a process we cannot see
        (True, [], [], True),
        # In a container: PIDs of the host.
        (False, [645400], [None], False),
        (False, [324, 645400], [None, None], False),  # a match by chance is no proof
        (False, [324], [True], True),
        (False, [77], [None], False),  # never foreign
        (False, [], [], True),
    ],
)
def test_attribution(
    host_pids: bool, pids: list[int], expected: list[bool | None], known: bool
) -> None:
    found = attribute(
        [Use(pid, 1) for pid in pids],
        JOB,
        host_pids=host_pids,
        job_start_ticks=1000,
        started=STARTS.get,
    )
    assert [use.ours for use in found.uses] == expected
    assert found.known is known
    assert (found.reason is None) is known
    if not host_pids and not known:
        assert "PID namespace" in (found.reason or "")


def test_the_namespace_is_read_from_proc(tmp_path: Path) -> None:
    link = tmp_path / "proc/self/ns/pid"
    assert in_initial_namespace(tmp_path) is False
    link.parent.mkdir(parents=True)
    link.symlink_to("pid:[4026531836]")
    assert in_initial_namespace(tmp_path) is True
    link.unlink()
    link.symlink_to("pid:[4026532999]")
    assert in_initial_namespace(tmp_path) is False


def test_start_ticks_of_a_process_with_a_strange_name(tmp_path: Path) -> None:
    (tmp_path / "proc/5").mkdir(parents=True)
    fields = " ".join(str(number) for number in range(4, 53))
    (tmp_path / "proc/5/stat").write_text(f"5 (a) b ( c) S {fields}\n")
    assert start_ticks(5, tmp_path) == 22
    assert start_ticks(6, tmp_path) is None
