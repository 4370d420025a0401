"""Truth against verdict, with confidence: one row a job or trace, and last how many are right.

    python benchmarks/verdicts                     the samples of this repository
    ... --workloads DIR --traces DIR                            labelled jobs and traces, too
    ... --only NAME --times 3 --steps 60

A wrong verdict with high confidence is marked `!!`. Jobs run one at a time, for they measure time;
on a machine with other work the shares are less sure. Exit status 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .truth import Truth, of_folder, of_samples

SAMPLES = Path(__file__).parents[2] / "samples"


@dataclass(frozen=True)
class Row:
    truth: Truth
    verdict: dict[str, Any]
    mistakes: list[str]

    def __str__(self) -> str:
        found, cause = self.verdict["bottleneck"], self.verdict["cause"]
        said = f"{found}/{cause}" if cause else str(found)
        sure = self.verdict["confidence"]
        mark = "ok" if not self.mistakes else "!!" if sure == "high" else "wrong"
        why = "" if not self.mistakes else "  " + ", ".join(self.mistakes)
        return f"{self.truth.name:<28} {self.truth.words:<44} {said:<36} {sure:<7} {mark}{why}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/verdicts", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--workloads", type=Path, help="folder of labelled jobs with truth.toml")
    parser.add_argument("--traces", type=Path, help="folder of traces with truth.toml")
    parser.add_argument("--no-samples", action="store_true", help="leave the samples out")
    parser.add_argument("--only", help="names that contain this")
    parser.add_argument("--times", type=int, default=1, help="runs of each job")
    parser.add_argument("--steps", type=int, help="STEPS of the jobs; else their own length")
    options = parser.parse_args()
    print(f"{'name':<28} {'truth':<44} {'verdict':<36} {'sure':<7}")
    rows = []
    for row in _rows(options):
        print(row, flush=True)
        rows.append(row)
    right = sum(not row.mistakes for row in rows)
    loud = sum(bool(row.mistakes) and row.verdict["confidence"] == "high" for row in rows)
    print(f"{right} of {len(rows)} right, {loud} wrong with high confidence")
    return 0 if right == len(rows) else 1


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    jobs = [] if options.no_samples else of_samples(SAMPLES)
    jobs += of_folder(options.workloads, ".py") if options.workloads else []
    traces = of_folder(options.traces, ".json.gz") if options.traces else []
    with tempfile.TemporaryDirectory(prefix="verdicts") as home:
        for truth in (t for t in jobs if not options.only or options.only in t.name):
            for _ in range(options.times):
                yield _judged(truth, _run(truth, home, options.steps))
        for truth in (t for t in traces if not options.only or options.only in t.name):
            yield _judged(truth, _import(truth, home))


def _judged(truth: Truth, report: dict[str, Any]) -> Row:
    return Row(
        truth, report["verdict"], truth.mistakes(report["verdict"], report["time"]["shares"])
    )


def _run(truth: Truth, home: str, steps: int | None) -> dict[str, Any]:
    length = {"STEPS": str(steps)} if steps else {}
    _accelprof(home, "run", "--quiet", "--", sys.executable, str(truth.path), **length)
    return json.loads(_accelprof(home, "report", "--format", "json"))


def _import(truth: Truth, home: str) -> dict[str, Any]:
    return json.loads(_accelprof(home, "import", str(truth.path), "--json"))


def _accelprof(home: str, *words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "accelprof", *words], capture_output=True, text=True, check=False,
        env=os.environ | {"ACCELPROF_HOME": home} | environment,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"accelprof {' '.join(words)}: {done.stderr.strip()[-400:]}")
    return done.stdout
