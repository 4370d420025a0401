"""What must be found: by the headers of samples, by `truth.toml` beside labelled jobs."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TERM = re.compile(r"(\w+)(<=|>=|=)([\w.|-]+)")


@dataclass(frozen=True)
class Truth:
    """Acceptable answers for one job or trace; empty: anything goes."""

    name: str
    path: Path
    bottleneck: tuple[str, ...] = ()
    cause: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    shares: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """`input-bound/storage|remote-data`, or what it must not be."""
        text = "|".join(self.bottleneck) or "not " + "|".join(self.wrong)
        return text + ("/" + "|".join(self.cause) if self.cause else "")

    def mistakes(self, verdict: dict[str, Any], shares: dict[str, float]) -> list[str]:
        """What is other than it must be."""
        found = []
        if (self.bottleneck and verdict["bottleneck"] not in self.bottleneck) or verdict[
            "bottleneck"
        ] in self.wrong:
            found.append("bottleneck")
        if self.cause and verdict["cause"] not in self.cause:
            found.append("cause")
        return found + [
            f"{name} {shares.get(name, 0.0):.0%}" for name, (low, high) in self.shares.items()
            if not low <= shares.get(name, 0.0) <= high
        ]  # fmt: skip


def of_samples(folder: Path) -> list[Truth]:
    """Scripts whose docstring has a line `expect: bottleneck=... cause=... input>=0.5`."""
    return [truth for path in sorted(folder.glob("*.py")) if (truth := of_header(path))]


def of_header(path: Path) -> Truth | None:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    line = next((x for x in text.splitlines() if x.startswith("expect: ")), None)
    if line is None:
        return None
    lists: dict[str, tuple[str, ...]] = {}
    shares: dict[str, tuple[float, float]] = {}
    for name, sign, value in _TERM.findall(line):
        if sign == "=":
            lists[name] = tuple(value.split("|"))
        else:
            low, high = shares.get(name, (0.0, 1.0))
            shares[name] = (float(value), high) if sign == ">=" else (low, float(value))
    return Truth(path.stem, path, lists.get("bottleneck", ()), lists.get("cause", ()), (), shares)


def of_folder(folder: Path, suffix: str) -> list[Truth]:
    """A folder with `truth.toml`: a table a file, `bottleneck`, `cause`, `not`, `X_share`."""
    given = tomllib.loads((folder / "truth.toml").read_text())
    return [
        Truth(
            name, folder / f"{name}{suffix}", tuple(row.get("bottleneck", ())),
            tuple(row.get("cause", ())), tuple(row.get("not", ())),
            {k.removesuffix("_share"): (v[0], v[1]) for k, v in row.items()
             if k.endswith("_share")},
        )
        for name, row in given.items()
    ]  # fmt: skip
