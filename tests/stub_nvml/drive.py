"""The child of the stub tests: samples each scenario of a plan, prints the rows as JSON."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from accelprof.profiler.collectors.nvml_sampling import Sampling

SCRIPT = Path(os.environ["STUB_NVML_SCRIPT"])
CLOCK = SCRIPT.with_name("clock")
CLOCK_FD = os.open(CLOCK, os.O_RDWR | os.O_CREAT)


def replace(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text, "utf-8")
    partial.replace(path)


def set_clock(time: float) -> None:
    """In place and always as long: the stub may read it at any moment."""
    os.pwrite(CLOCK_FD, f"{time:020.9f}\n".encode(), 0)


def play(plan: dict[str, Any]) -> dict[str, Any]:
    times = plan["times"]
    set_clock(times[0])
    replace(SCRIPT, "\n".join([f"clock file {CLOCK}", *plan["lines"], ""]))
    options = dict(plan["options"])
    if "root" in options:
        options["root"] = Path(options["root"])
    if "tree" in options:
        pids = options.pop("tree")
        options["tree"] = lambda: pids
    sampling = Sampling(environment=plan["environment"], **options)
    sampling.open()
    rows = []
    for time in times:
        set_clock(time)
        rows += sampling.sample(round(time * 1e9))
        sampling.wait_for_slow()
    # What the slow lane found in its last pass comes with one more sample.
    rows += sampling.sample(round(times[-1] * 1e9) + 1)
    sampling.close()
    failure = sampling.failure
    return {"failure": failure.reason if failure else None, "rows": rows}


if __name__ == "__main__":
    plans = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    print(json.dumps({name: play(plan) for name, plan in plans.items()}))
