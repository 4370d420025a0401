"""Reports as the diagnosis gives them, one for each kind of run that an output has to bear."""

from __future__ import annotations

from typing import Any

from accelprof.profiler.report import (
    SHARES,
    Cost,
    Device,
    Evidence,
    Finding,
    Gap,
    Hotspot,
    Hotspots,
    Loss,
    Memory,
    OpSpot,
    Quality,
    Report,
    RunInfo,
    StepMs,
    Time,
    Verdict,
    Window,
)  # fmt: skip

GIB = 1 << 30


def shares(**given: float) -> dict[str, float]:
    """All shares; `other` takes what is missing to 1."""
    found = dict.fromkeys(SHARES, 0.0) | given
    found["other"] += 1.0 - sum(found.values())
    return found


def run(name: str, /, **given: Any) -> RunInfo:
    fields: dict[str, Any] = {
        "id": f"20260112-101500-{name}-ab12",
        "name": name,
        "command": ["python", f"{name}.py", "--epochs", "3"],
        "cwd": "/home/ada/jobs",
        "host": "node-17",
        "started_at": "2026-01-12T10:15:00Z",
        "ended_at": "2026-01-12T10:17:14Z",
        "wall_s": 134.2,
        "exit_status": 0,
        "state": "finished",
        "tags": {"team": "vision"},
        "git": {"commit": "4f0c2d19e7b7c1d2a3b4c5d6e7f8091a2b3c4d5e", "dirty": True},
        "environment": {
            "python": "3.11.7", "torch": "2.13.0+cpu", "cuda": None, "driver": None,
            "os": "Linux 6.1", "cpu": "AMD EPYC 7B13", "cpus_usable": 8,
        },
    }  # fmt: skip
    return RunInfo(**(fields | given))


def cpu(**given: Any) -> Device:
    fields: dict[str, Any] = {
        "index": 0,
        "name": "AMD EPYC 7B13",
        "kind": "cpu",
        "catalogue": None,
        "memory_bytes": 32 * GIB,
        "ceilings": {
            "flops": {"fp32": 412e9, "bf16": 1.1e12},
            "bytes_per_s": 41.5e9,
            "source": "calibrated",
        },
    }
    return Device(**(fields | given))


def gpu() -> Device:
    return Device(
        index=0, name="NVIDIA H100 80GB HBM3", kind="gpu", catalogue="h100-sxm",
        memory_bytes=80 * GIB,
        ceilings={"flops": {"bf16": 989e12}, "bytes_per_s": 3.35e12, "source": "datasheet"},
    )  # fmt: skip


def windows(*stretches: tuple[str, int, dict[str, float]]) -> list[Window]:
    """Windows of 15 s: (bottleneck, how many, shares) a stretch."""
    found: list[Window] = []
    for bottleneck, many, parts in stretches:
        for _ in range(many):
            at = 15.0 * len(found)
            found.append(Window(at, at + 15.0, bottleneck, parts))  # type: ignore[arg-type]
    return found


def input_bound() -> Report:
    parts = shares(input=0.706, compute=0.201, memory=0.052, logging=0.004)
    return Report(
        run=run("resnet"),
        devices=[cpu()],
        verdict=Verdict(
            "input-bound", "high",
            "Input-bound: 71 % of the time is waiting for data; one loader worker cannot make "
            "batches as fast as the step uses them.",
            "too-few-workers",
            [
                Evidence("waiting for the next batch takes 129 ms of a 182 ms step",
                         "input", 0.706, "share"),
                Evidence("a batch costs 174 ms of one worker, and num_workers=1 makes one at a "
                         "time", "batch_s", 0.174, "s"),
                Evidence("6.1 of 8 usable CPUs are idle", "cpus_free", 6.1, "cores"),
            ],
            3.4,
            ["compute takes 20 %: with the input fixed it is the next limit"],
        ),
        time=Time(
            411, 1, StepMs(182.4, 240.9, 188.1), 170.1, 5.316, 38.6, parts,
            steps_total=431, warmup_steps=20, not_observed=["checkpoint"],
        ),
        utilisation={
            "device_busy": None, "sm": None, "tensor": None, "memory_bandwidth": 0.11,
            "mfu": 0.18, "cpu_job": 0.24, "cpu_host": 0.27, "power_w": None, "energy_j": None,
        },
        memory=Memory(host_peak_bytes=int(2.31 * GIB), growth_bytes_per_step=0.0),
        phases_over_time=windows(
            ("input-bound", 6, parts),
            ("compute-bound", 1, shares(compute=0.62, input=0.3)),
            ("input-bound", 2, shares(input=0.66, compute=0.25)),
        ),
        findings=[
            Finding(
                "too-few-workers", "critical",
                "One loader worker makes 5.7 batches/s; the step could take 19 batches/s",
                [Evidence("a batch costs 174 ms of one worker", "batch_s", 0.174, "s")],
                ["DataLoader(num_workers=4) at train.py:31: four workers make 23 batches/s, "
                 "and 6.1 CPUs are idle",
                 "keep persistent_workers=True, so that they start once"],
                3.4,
            ),
            Finding(
                "logging-heavy", "info", "SummaryWriter is called on every step",
                [Evidence("0.4 % of wall time", "logging", 0.004, "share")],
                ["log each 50th step"], 1.004,
            ),
        ],
        hotspots=Hotspots(
            input=[
                Hotspot("/opt/venv/lib/python3.11/site-packages/PIL/Image.py:2204 resize", 0.46),
                Hotspot("train.py:18 __getitem__", 0.31),
                Hotspot("/opt/venv/lib/python3.11/site-packages/PIL/ImageFile.py:300 load", 0.12),
            ],
            ops=[
                OpSpot("aten::mkldnn_convolution", 0.61, "compute", 0.83),
                OpSpot("aten::native_batch_norm", 0.14, "memory", 0.71),
                OpSpot("aten::add_", 0.02, "latency", 0.05),
            ],
        ),
        ranks=[],
        cost=Cost(),
        quality=Quality(
            "full", 0, 0.0008,
            [Gap("tpu.*", "no TPU chip on this host's PCI bus"),
             Gap("psi", "/proc/pressure is not readable in this container")],
            memory_or_compute="captured operators against calibrated ceilings",
            operators_covered=0.97,
        ),
    )  # fmt: skip


def memory_bound() -> Report:
    parts = shares(memory=0.74, compute=0.12, host=0.08, input=0.03)
    return Report(
        run=run("gelu-chain"),
        devices=[gpu()],
        verdict=Verdict(
            "memory-bound", "medium",
            "Memory bandwidth limits 74 % of the time: elementwise operators read and write "
            "every tensor once each.",
            "unfused-ops",
            [
                Evidence("DRAM is active 78 % of the time, tensor cores 9 %", "dram", 0.78),
                Evidence("14 elementwise operators a step move 31 GB", "bytes", 31e9, "bytes"),
            ],
            3.85,
            ["2 of 9 windows are compute-bound"],
        ),
        time=Time(
            1800, 1, StepMs(41.2, 43.0, 41.5), 3084.0, 24.1, None, parts,
            steps_total=1830, warmup_steps=30,
        ),
        utilisation={
            "device_busy": 0.91, "sm": 0.83, "tensor": 0.09, "memory_bandwidth": 0.78,
            "mfu": 0.06, "cpu_job": 0.12, "cpu_host": 0.14, "power_w": 412.0, "energy_j": 31300.0,
        },
        memory=Memory(
            device_peak_bytes=61 * GIB, device_total_bytes=80 * GIB, host_peak_bytes=9 * GIB,
            largest_batch={"value": 192, "method": "slope of activations over 2 batch sizes"},
        ),
        phases_over_time=windows(("memory-bound", 9, parts)),
        findings=[
            Finding(
                "unfused-ops", "warning", "Elementwise operators run one by one",
                [Evidence("14 elementwise operators take 69 % of the step", "ops", 0.69, "share")],
                ["torch.compile(model): it fuses the chain of mul, add and gelu in model.py:88"],
                2.6,
            ),
            Finding(
                "small-batch", "info", "The batch of 128 leaves 19 GiB of device memory free",
                [Evidence("peak 61 GiB of 80 GiB", "memory", 0.76, "share")],
                ["a batch of 192 fits"], None,
            ),
        ],
        hotspots=Hotspots(ops=[
            OpSpot("aten::gelu", 0.31, "memory", 0.88),
            OpSpot("aten::mul", 0.22, "memory", 0.91),
            OpSpot("aten::mm", 0.12, "compute", 0.55),
        ]),
        ranks=[],
        cost=Cost(
            usd_per_hour=2.99, usd=0.1115, accelerator_s=134.2, lost_accelerator_s=12.1,
            lost_usd=0.01, energy_j=31300.0, price_source="aws p5.48xlarge, 2026-09-10",
            lost_energy_j=1270.0,
            losses=[Loss("input", 8.1, 0.0067, 850.0), Loss("host", 4.0, 0.0033, 420.0)],
        ),
        quality=Quality("full", 0, 0.0011, [], memory_or_compute="hardware counters (GPM)"),
    )  # fmt: skip


def compute_bound() -> Report:
    parts = shares(compute=0.93, memory=0.03, input=0.01, host=0.01)
    return Report(
        run=run("gemm", tags={}, git={}),
        devices=[cpu()],
        verdict=Verdict(
            "compute-bound", "high",
            "Arithmetic takes 93 % of the time at 84 % of what this CPU can do.", "good",
            [
                Evidence("matrix products run at 346 of 412 GFLOP/s", "flops", 346e9, "FLOP/s"),
                Evidence("all 8 CPUs are busy (97 %)", "cpu_job", 0.97, "share"),
            ],
            14.3, [],
        ),
        time=Time(
            96, 1, StepMs(1312.0, 1340.0, 1315.0), 97.3, 0.7604, None, parts,
            steps_total=98, warmup_steps=2, not_observed=["logging", "checkpoint"],
        ),
        utilisation={"device_busy": None, "mfu": 0.84, "cpu_job": 0.97, "cpu_host": 0.98},
        memory=Memory(host_peak_bytes=3 * GIB),
        phases_over_time=windows(("compute-bound", 8, parts)),
        findings=[
            Finding(
                "precision", "info", "All matrix products are in fp32; bf16 is 2.7x as fast here",
                [Evidence("fp32 412 GFLOP/s, bf16 1.1 TFLOP/s", "flops", 2.7, "x")],
                ["torch.autocast('cpu', dtype=torch.bfloat16) around the forward pass"], 2.4,
            ),
        ],
        hotspots=Hotspots(ops=[OpSpot("aten::addmm", 0.95, "compute", 0.84)]),
        ranks=[], cost=Cost(),
        quality=Quality("full", 0, 0.0002, [],
                        memory_or_compute="captured operators against calibrated ceilings",
                        operators_covered=0.99),
    )  # fmt: skip


def host_bound() -> Report:
    parts = shares(host=0.66, compute=0.12, memory=0.15, input=0.02)
    return Report(
        run=run("small-ops", wall_s=31.0),
        devices=[cpu()],
        verdict=Verdict(
            "host-bound", "high",
            "66 % of the time goes into launching 1,900 operators a step of 6 µs each.",
            "small-kernels",
            [
                Evidence("1,900 operators a step, 6.1 µs each", "op_us", 6.1, "us"),
                Evidence("the work in them would take 21 ms less at its floor", "ms", 21.0, "ms"),
            ],
            2.94, [],
        ),
        time=Time(
            880, 1, StepMs(31.9, 38.2, 32.7), 978.0, 30.58, 3.27, parts,
            steps_total=900, warmup_steps=20, not_observed=["logging", "checkpoint"],
        ),
        utilisation={"cpu_job": 0.13, "cpu_host": 0.16, "mfu": 0.01},
        memory=Memory(host_peak_bytes=700 << 20),
        phases_over_time=windows(("host-bound", 2, parts)),
        findings=[
            Finding("small-kernels", "critical", "Operators are too small for their launch cost",
                    [Evidence("1,900 operators a step, 6.1 µs each", "op_us", 6.1, "us")],
                    ["torch.compile(model), or a larger batch than 32"], 2.94),
            Finding("synchronisation", "warning", ".item() is called twice a step",
                    [Evidence("train.py:44 and train.py:51", "calls", 2, "calls")],
                    ["read the loss each 50th step"], 1.06),
        ],
        hotspots=Hotspots(
            host=[Hotspot("model.py:30 forward", 0.71), Hotspot("train.py:44 <module>", 0.08)],
            ops=[OpSpot("aten::mul", 0.3, "latency", 0.04)],
        ),
        ranks=[], cost=Cost(),
        quality=Quality("full", 0, 0.003, []),
    )  # fmt: skip


def checkpoint_bound() -> Report:
    parts = shares(checkpoint=0.58, compute=0.3, memory=0.06, input=0.02)
    return Report(
        run=run("saver"),
        devices=[cpu()],
        verdict=Verdict(
            "checkpoint-bound", "high",
            "Saving checkpoints takes 58 % of the time: torch.save each 10 steps.", None,
            [Evidence("42 checkpoints, 1.85 s each", "checkpoint_s", 1.85, "s")], 2.38, [],
        ),
        time=Time(420, 1, StepMs(21.0, 1890.0, 206.0), None, 4.85, None, parts,
                  steps_total=421, warmup_steps=1),
        utilisation={"cpu_job": 0.21, "cpu_host": 0.3},
        memory=Memory(host_peak_bytes=4 * GIB, growth_bytes_per_step=1.2e6),
        phases_over_time=windows(("checkpoint-bound", 9, parts)),
        findings=[
            Finding("checkpoint-heavy", "critical", "A checkpoint each 10 steps",
                    [Evidence("58 % of wall time", "checkpoint", 0.58, "share")],
                    ["save each 500 steps, or on a thread of its own"], 2.38),
            Finding("memory-growth", "warning", "The process grows by 1.2 MB a step",
                    [Evidence("504 MB over 420 steps", "bytes", 504e6, "bytes")], [], None),
        ],
        hotspots=Hotspots(), ranks=[], cost=Cost(),
        quality=Quality("full", 0, None, []),
    )  # fmt: skip


def ranks() -> Report:
    report = memory_bound()
    report.run = run("ddp")
    report.time.ranks = 2
    report.ranks = [
        {"rank": 0, "pid": 4100, "steps": 1800, "step_ms": 41.2},
        {"rank": 1, "pid": 4101, "steps": 1800, "step_ms": 47.9},
    ]
    return report


def empty() -> Report:
    return Report(
        run=run("nothing", wall_s=0.4, tags={}, git={}, environment={}),
        devices=[],
        verdict=Verdict(
            "inconclusive", "low", "No training or inference step was seen in 0.4 s.", None, [],
            None, ["20 steady steps or more are needed"],
        ),
        time=Time(0, 0, StepMs(None, None, None), None, None, None, {}),
        utilisation={}, memory=Memory(), phases_over_time=[], findings=[],
        hotspots=Hotspots(), ranks=[], cost=Cost(),
        quality=Quality("full", 0, None, []),
    )  # fmt: skip


def hookless() -> Report:
    report = empty()
    report.run = run("frozen", command=["./trainer", "--fast"], wall_s=3605.0)
    report.devices = [cpu()]
    report.verdict.headline = (
        "Without hooks the time cannot be divided; the host's CPUs were 96 % busy."
    )
    report.verdict.evidence = [Evidence("the job used 7.7 of 8 CPUs", "cpu_job", 0.96, "share")]
    report.verdict.against = ["run it with a Python that reads PYTHONPATH"]
    report.utilisation = {"cpu_job": 0.96, "cpu_host": 0.97}
    report.memory = Memory(host_peak_bytes=11 * GIB)
    report.quality = Quality(
        "none", 0, None,
        [Gap("hooks", "no Python started in the job: ./trainer is not a Python program"),
         Gap("stacks", "py-spy found no interpreter in pid 4242"),
         Gap("device counters", "no accelerator on this machine")],
    )  # fmt: skip
    return report


def killed() -> Report:
    report = input_bound()
    report.run = run("oom", state="killed", exit_status=137, wall_s=61.7)
    report.verdict.confidence = "low"
    report.quality.events_lost = 1312
    report.quality.hooks = "partial"
    report.quality.gaps.insert(0, Gap("hooks", "2 of 5 processes had no hooks (python -I)"))
    report.findings.insert(
        0,
        Finding("out-of-memory", "critical", "The host's out-of-memory killer ended the job",
                [Evidence("memory.events oom_kill went from 0 to 1", "oom_kill", 1, "")],
                ["use num_workers=2, or a smaller prefetch_factor"], None),
    )  # fmt: skip
    return report


def running() -> Report:
    report = input_bound()
    report.run = run("resnet", state="running", ended_at=None, exit_status=None, wall_s=7384.0)
    return report


HOSTILE = "\x1b[2J\x1b]0;owned\x07</td><script>alert(1)</script>|**b**`x`\n# h\r\u202egpj.exe @all"


def hostile() -> Report:
    report = input_bound()
    report.run = run(
        "evil", name=HOSTILE, id="20260112-101500-evil-ab12", host=HOSTILE, cwd=HOSTILE,
        command=["python", HOSTILE, "a|b", "``"], tags={HOSTILE: HOSTILE}, note=HOSTILE,
        environment={"python": HOSTILE, HOSTILE: [HOSTILE]}, git={"commit": HOSTILE},
    )  # fmt: skip
    report.devices = [cpu(name=HOSTILE)]
    report.verdict.headline = f"Waits for {HOSTILE}"
    report.verdict.evidence = [Evidence(HOSTILE, "m", HOSTILE, HOSTILE), Evidence("x" * 500, "m")]
    report.verdict.against = [HOSTILE]
    report.time.not_observed = [HOSTILE]
    report.findings = [
        Finding("too-few-workers", "critical", HOSTILE, [Evidence(HOSTILE, "m")], [HOSTILE], 2.0)
    ]
    report.hotspots = Hotspots(
        input=[Hotspot(HOSTILE, 0.5), Hotspot("bad\udcffbyte.py:1 f", 0.25)],
        ops=[OpSpot(HOSTILE, 0.9, "unknown", None)],
        host=[Hotspot("中文路径/训练.py:3 主", 0.1)],
    )
    report.quality.gaps = [Gap(HOSTILE, HOSTILE)]
    report.quality.notes = [HOSTILE]
    return report


CASES = {
    "input": input_bound,
    "memory": memory_bound,
    "compute": compute_bound,
    "host": host_bound,
    "checkpoint": checkpoint_bound,
    "ranks": ranks,
    "empty": empty,
    "hookless": hookless,
    "killed": killed,
    "running": running,
    "hostile": hostile,
}
