"""Device time of spans on a real GPU, against what each loop is made to do.

    python tests/device/device_time.py OUT_FOLDER

A wait that queued work outlasts, one that it does not, an asynchronous copy, a compiled model and
one replayed as a CUDA graph. Exit 1 when a figure is not what it must be, 77 without a GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

JOB = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset

case = sys.argv[1]
size, repeat, wait = {
    "hidden": (8192, 12, 0.005), "exposed": (512, 1, 0.02), "copy": (512, 1, 0.0),
    "compiled": (1024, 2, 0.0), "graph": (1024, 2, 0.0),
}[case]

class Data(Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, n):
        time.sleep(wait)
        return torch.ones(1 << 24 if case == "copy" else 64)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(size, size) * 0.01)
    def forward(self, x):
        y = self.weight
        for _ in range(repeat):
            y = y @ self.weight
        return y.mean() + x.mean()

net = Net().cuda()
model = torch.compile(net) if case == "compiled" else net
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
if case == "graph":
    static = torch.ones(1, 64, device="cuda")
    model = torch.cuda.make_graphed_callables(net, (static,))
for x in DataLoader(Data(), pin_memory=case == "copy"):
    x = x.cuda(non_blocking=True)
    model(x).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
torch.cuda.synchronize()
"""
SQL = """SELECT avg(data_wait_ns) / 1e6 AS wait, avg(data_wait_device_ns) / 1e6 AS idle,
    avg(h2d_ns) / 1e6 AS copy, avg(h2d_device_ns) / 1e6 AS device_copy,
    avg(forward_ns) / 1e6 AS forward, avg(forward_device_ns) / 1e6 AS device_forward,
    count(data_wait_device_ns) AS timed, count(*) AS steps FROM step WHERE step > 10"""
CHECKS = {
    "hidden": lambda r: r["idle"] < 0.3 * r["wait"] and r["device_forward"] > r["forward"],
    "exposed": lambda r: 0.7 * r["wait"] < r["idle"] < 1.1 * r["wait"],
    "copy": lambda r: r["device_copy"] > 5 * r["copy"] > 0,
    "compiled": lambda r: r["timed"] > 0,
    "graph": lambda r: r["steps"] > 30,
}


def figures(case: str, out: Path) -> dict[str, float]:
    job = out / "device_time_job.py"
    job.write_text(JOB)
    accelprof = [sys.executable, "-m", "accelprof"]
    run = [*accelprof, "run", "--quiet", "--capture", "off", "--stacks", "off", "--out", str(out)]
    subprocess.run([*run, "--name", case, "--", sys.executable, str(job), case], check=True)
    folder = max(out.glob(f"*-{case}-*"), key=lambda path: path.stat().st_mtime)
    told = subprocess.run(
        [*accelprof, "sql", str(folder), "--json", SQL], capture_output=True, text=True, check=True
    )
    table = json.loads(told.stdout)
    row = zip(table["columns"], table["rows"][0], strict=True)
    return {name: float(value or 0) for name, value in row}


def main() -> int:
    import torch

    if not torch.cuda.is_available():
        return 77
    out, wrong = Path(sys.argv[1]), 0
    for case, holds in CHECKS.items():
        began = time.monotonic()
        row = figures(case, out)
        good = holds(row)
        wrong += not good
        shown = "  ".join(f"{name} {value:.3g}" for name, value in row.items())
        print(f"{'ok ' if good else 'BAD'} {case}: {shown} ({time.monotonic() - began:.0f} s)")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
