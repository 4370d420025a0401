"""The published JSON Schemas are those of what is printed, and hold for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accelprof.profiler.exports import schema

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))
import recorded
from running import accelprof

DOCS = Path(__file__).parents[2] / "docs" / "schema"


@pytest.mark.parametrize("name", schema.PRINTED)
def test_the_published_file_is_up_to_date(name: str) -> None:
    held = (DOCS / f"{name}.json").read_text()
    assert held == schema.text(name), "run: python -m accelprof.profiler.exports.schema"


def test_what_is_printed_fits(tmp_path: Path) -> None:
    recorded.record(tmp_path)
    for name, words in (
        ("accelprof.report-1", ["report"]),
        ("accelprof.compare-1", ["compare", "last", "last", "--table"]),
        ("accelprof.check-1", ["check", "--max-step-ms", "1", "--baseline", "last"]),
    ):
        printed = accelprof(tmp_path, *words, "--json").stdout
        msgspec.json.decode(printed, type=schema.PRINTED[name])  # types and required keys
        found: dict[str, Any] = json.loads(printed)
        assert found["schema"] == name.replace("-", "/")
        wanted = schema.schema(name)["$defs"][schema.PRINTED[name].__name__]
        assert set(wanted["required"]) <= set(found) <= set(wanted["properties"])
