"""The published JSON Schemas of `--json`: `python -m accelprof.profiler.exports.schema`.

They are generated from the very classes that are printed; docs/schema holds them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from ..comparison.gate import Gate
from ..comparison.model import Comparison
from ..report import Report

PRINTED: dict[str, type] = {
    "accelprof.report-1": Report,
    "accelprof.compare-1": Comparison,
    "accelprof.check-1": Gate,
}


def schema(name: str) -> dict[str, Any]:
    """JSON Schema 2020-12 of one output. More keys may come; none goes or changes its meaning."""
    found = msgspec.json.schema(PRINTED[name])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name} | found


def text(name: str) -> str:
    """The schema as it stands in its file."""
    return msgspec.json.format(msgspec.json.encode(schema(name)), indent=1).decode() + "\n"


def main(folder: Path) -> None:
    """Writes every schema into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PRINTED:
        (folder / f"{name}.json").write_text(text(name), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schema"))
