"""`accelprof devices` with AMD GPUs: what they read now, and what nobody can."""

from __future__ import annotations

from pathlib import Path

from gpus import GIB, tree

from accelprof.profiler.collectors import once
from accelprof.profiler.commands.devices import lines, survey


def test_values_are_shown(tmp_path: Path) -> None:
    body = survey(tree(tmp_path, {}, {"gpu_busy_percent": None}))
    first, second = body["devices"]
    assert (first["kind"], first["values"]["busy_share"]) == ("gpu", 0.98)
    assert first["values"]["memory_used_bytes"] == 120 * GIB
    assert first["memory_bytes"] == 192 * GIB
    assert "busy_share" in first["readable"] and "busy_share" not in second["readable"]
    text = "\n".join(lines(body))
    assert "busy 98%, memory 120.0 GiB used, 612 W" in text
    assert any(item["metric"].startswith("sm_share") for item in first["unreadable"])


def test_nothing_on_the_bus(tmp_path: Path) -> None:
    assert once.look(tmp_path, pause=lambda _: None) == []
