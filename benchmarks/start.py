"""What the hooks add to the start of a Python, and to the import of torch.

    python benchmarks/start.py [--pairs N] [--torch-pairs N] [--python PATH]

Starts the same command with and without hooks in alternation and prints the median of the paired
differences, in ms of wall time and of CPU time (CPU time is the steadier one on a busy machine).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

INJECT = Path(__file__).resolve().parent.parent / "hooks" / "inject"


def run(python: str, code: str, environ: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU time of one Python, ms."""
    start = time.perf_counter()
    pid = os.posix_spawn(python, [python, "-c", code], environ)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(f"{python} -c {code!r} failed with status {status}")
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3


def compare(python: str, code: str, pairs: int) -> str:
    """The medians of `pairs` paired differences, as a line."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("ACCELPROF", "PYTHONPATH"))}
    with tempfile.TemporaryDirectory() as spool:
        hooked = plain | {"PYTHONPATH": str(INJECT), "ACCELPROF_SPOOL": spool}
        run(python, code, plain)
        run(python, code, hooked)
        walls, cpus, bases = [], [], []
        for number in range(pairs):
            order = (plain, hooked) if number % 2 else (hooked, plain)
            times = {id(environ): run(python, code, environ) for environ in order}
            base, ours = times[id(plain)], times[id(hooked)]
            bases.append(base[0])
            walls.append(ours[0] - base[0])
            cpus.append(ours[1] - base[1])
    wall, cpu, middle = map(statistics.median, (walls, cpus, bases))
    return f"{code!r}: {wall:+.2f} ms wall, {cpu:+.2f} ms CPU on {middle:.1f} ms ({pairs} pairs)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--torch-pairs", type=int, default=15)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    print(compare(options.python, "pass", options.pairs))
    if options.torch_pairs:
        print(compare(options.python, "import torch", options.torch_pairs))


if __name__ == "__main__":
    main()
