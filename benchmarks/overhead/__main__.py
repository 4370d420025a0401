"""What profilers of this kind cost a training loop, side by side.

    python benchmarks/overhead [--python PYTHON] [--pairs 20] [--steps 1.0]

PYTHON has torch and the other tools: `pip install 'traceml-ai==0.5.*' scalene py-spy`; what is not
there is left out. One round starts the bare job and each tool once, in an order that turns; all do
the loops of loops.py. A tool's figure is the median over the pairs of what it adds, with the
interval that holds the median with 95 %. `step` compares median steps; `mean` compares means, so
that what a tool does now and then counts: captures, flushes, samples. 20 pairs take about 15
minutes on 2 quiet cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

LOOPS = Path(__file__).with_name("loops.py")
BARE, OURS = "bare", "accelprof"
LIMIT_S = 300  # of one start
Times = dict[str, list[int]]


def commands(python: str, folder: Path) -> dict[str, list[str]]:
    """How each tool is started before `loops.py RESULT TOOL STEPS`; those that are here."""
    beside = Path(python).parent

    def found(name: str) -> str:
        return shutil.which(name, path=f"{beside}{os.pathsep}{os.environ['PATH']}") or ""

    traceml, scalene, py_spy = found("traceml"), found("scalene"), found("py-spy")
    every = {
        OURS: [sys.executable, "-m", "accelprof", "run", "--quiet", python, str(LOOPS)],
        "torch.profiler": [python, str(LOOPS)],
        "TraceML": [traceml, "run", "--logs-dir", str(folder / "logs"), str(LOOPS), "--args"],
        "Scalene": [scalene, "run", "-o", str(folder / "scalene.json"), str(LOOPS), "---"],
        "py-spy record": [py_spy, "record", "-o", str(folder / "spy.svg"), "--", python,
                          str(LOOPS)],
    }  # fmt: skip
    return {BARE: [python, str(LOOPS)]} | {tool: c for tool, c in every.items() if c[0]}


def measure(tool: str, command: list[str], folder: Path, steps: float) -> Times | None:
    """One start of the loops under a tool; None when it did not come to its end."""
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    environ = os.environ | {"ACCELPROF_HOME": str(folder / "home")}
    process = subprocess.Popen(
        [*command, str(result), tool, str(steps)], cwd=folder, env=environ, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        said = process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # what it started, too
        process.communicate()
        print(f"{tool} took longer than {LIMIT_S} s", file=sys.stderr)
        return None
    if not result.exists():
        print(f"{tool} failed: {said.strip()[-300:]}", file=sys.stderr)
        return None
    found: Times = json.loads(result.read_text())
    return found


def interval(values: list[float]) -> tuple[float, float, float]:
    """The median, and the order statistics that hold it with at least 95 % (all, if too few)."""
    ordered, n = sorted(values), len(values)
    out, chance, total = 0, 0.5**n, 0.5**n
    while total <= 0.025 and out < n // 2:
        out += 1
        chance *= (n - out + 1) / out
        total += chance
    low = max(out - 1, 0)
    return statistics.median(ordered), ordered[low], ordered[n - 1 - low]


def table(pairs: dict[str, list[tuple[Times, Times]]], of: Callable[[list[int]], float]) -> None:
    """Added time a step, ms and % of the bare step."""
    for tool, both in pairs.items():
        for loop in both[0][0] if both else ():
            bare = statistics.median(of(plain[loop]) for plain, _ in both) / 1e6
            added = [(of(ours[loop]) - of(plain[loop])) / 1e6 for plain, ours in both]
            middle, low, high = interval(added)
            print(f"{tool:15} {loop:18} {bare:8.3f} ms {middle * 1e3:+9.1f} us"
                  f" ({low * 1e3:+.1f} to {high * 1e3:+.1f}) {middle / bare:+8.2%}"
                  f" ({low / bare:+.2%} to {high / bare:+.2%})")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=float, default=1.0, help="times the steps of each loop")
    parser.add_argument("--tools", nargs="*", help="only these")
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = {
            tool: command
            for tool, command in commands(options.python, folder).items()
            if not options.tools or tool in (BARE, *options.tools)
        }
        pairs = rounds(tools, folder, options.pairs, options.steps)
    load = os.getloadavg()[0]
    print(f"{options.pairs} pairs in {time.monotonic() - begun:.0f} s, load at the end {load:.1f}")
    for what, of in (("step", statistics.median), ("mean", statistics.fmean)):
        print(f"\n{what}: what a tool adds to the {what} of a loop's steps")
        table(pairs, of)


def rounds(
    tools: dict[str, list[str]], folder: Path, count: int, steps: float
) -> dict[str, list[tuple[Times, Times]]]:
    """Pairs of the bare job and each tool, the bare one of the same round."""
    names = list(tools)
    pairs: dict[str, list[tuple[Times, Times]]] = {tool: [] for tool in names if tool != BARE}
    measure(BARE, tools[BARE], folder, 0.0)  # bytecode and pages
    if OURS in tools:
        measure(OURS, tools[OURS], folder, 0.2)  # the machine's ceilings are measured once
    for number in range(count):
        turned = names[number % len(names) :] + names[: number % len(names)]
        found = {tool: measure(tool, tools[tool], folder, steps) for tool in turned}
        for tool, both in pairs.items():
            plain, ours = found[BARE], found[tool]
            if plain and ours:
                both.append((plain, ours))
        print(f"round {number + 1} of {count}", file=sys.stderr)
    return pairs


if __name__ == "__main__":
    main()
