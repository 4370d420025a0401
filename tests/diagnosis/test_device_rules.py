"""Golden cases of the rules about accelerators: each fires, is clear, and cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from golden import judged
from made_runs import T0, Run, op
from test_rules import loop

from accelprof.profiler.diagnosis import diagnose
from accelprof.profiler.diagnosis.model import Clear, Undecidable
from accelprof.profiler.report import Finding

Make = Callable[[], Run]
CUDA = '{"cpus_usable": 8, "torch": "2.13.0+cu130", "cuda": "13.0"}'
FAULTY = {"xid": 79, "device": 0, "meaning": "the GPU fell off the bus"}


def training(cuda: str = CUDA, **phases: Any) -> Run:
    """60 steps of 50 ms on a device, half of them spent in copies unless told otherwise."""
    run = Run(environment=cuda)
    run.steps(60, 50.0, **({"data_wait": 1.0, "h2d": 0.0, "forward": 20.0, "backward": 25.0,
                            "collective": None} | phases))  # fmt: skip
    return run


def on_gpu(**sample: Any) -> Run:
    return training().process().gpu(**sample)


def throttled(bits: int, clock: float = 0.9e9) -> Run:
    return on_gpu(throttle_bits=bits, sm_clock_hz=int(clock), power_w=250.0, dram_share=0.1,
                  sm_share=0.9)  # fmt: skip


def copying(busy: float = 0.6, **loader: Any) -> Run:
    run = training(h2d=30.0).fact("loader", id=1, num_workers=2, length=60, **loader)
    return run.process().gpu(busy)


def copies(name: str, calls: int, moved: float, ms: float = 20.0) -> Run:
    run = copying()
    return run.ops(
        [
            op("aten::mm", 20, flops=1e12, bytes=1e9),
            op(name, ms, flops=0.0, bytes=moved, calls=calls, phase="copy", shapes=""),
        ]
    )


def synchronising(calls: int, busy: float = 0.5, captured: bool = True) -> Run:
    run = training().process().gpu(busy)
    ops = [op("aten::_local_scalar_dense", 1, flops=0.0, bytes=0.0, calls=calls)] if calls else []
    rows = [op("aten::mm", 20, flops=1e12, bytes=1e9), *ops]
    return run.ops(rows) if captured else run


def two(second: dict[str, Any], **more: Any) -> Run:
    return on_gpu().gpu(index=1, **second, **more)


def allocator(split: float, retries: int = 0) -> Run:
    run = training().fact("allocator", reserved=10 << 30, inactive_split=split * (10 << 30),
                          retries=retries)  # fmt: skip
    return run.process().gpu()


def ranks(share: float, other: float, collective: bool = True) -> Run:
    run = Run(environment=CUDA)
    start = run.t_ns
    for pid, part in ((10, share), (11, other)):
        run.t_ns = start
        waits = 50.0 * part if collective else None
        run.steps(60, 50.0, pid=pid, rank=pid - 10, forward=(1 - part) * 50.0, collective=waits)
        run.process(pid, "rank", rank=pid - 10)
    return run


SHARED = {"device": 0, "attribution": "known",
          "processes": [{"pid": 10, "memory_bytes": 1 << 30, "ours": True},
                        {"pid": 777, "memory_bytes": 8 << 30, "ours": False}]}  # fmt: skip
ALONE = SHARED | {"processes": [{"pid": 10, "memory_bytes": 1 << 30, "ours": True}]}
UNSURE = {"device": 0, "attribution": "unknown", "reason": "cannot attribute: PID namespace",
          "processes": [{"pid": 645400, "memory_bytes": 1 << 30, "ours": None}]}  # fmt: skip
LOW = {"facts": ["its power limit is 250 W, by default it is 400 W"]}

# finding: (fires, clear, cannot tell)
CASES: dict[str, tuple[Make, Make, Make]] = {
    "throttled": (
        lambda: throttled(0x40), lambda: throttled(0x0), lambda: on_gpu(throttle_bits=None)),
    "link-degraded": (
        lambda: on_gpu(pcie_generation=4, pcie_width=4),
        lambda: on_gpu(pcie_generation=4, pcie_width=16),
        lambda: on_gpu(busy=0.2, pcie_generation=1, pcie_width=16)),
    "idle-device": (
        lambda: on_gpu(busy=0.03), on_gpu, lambda: on_gpu(busy=None)),
    "shared-device": (
        lambda: on_gpu().event("device-processes", **SHARED),
        lambda: on_gpu().event("device-processes", **ALONE),
        lambda: on_gpu().event("device-processes", **UNSURE)),
    "xid": (
        lambda: on_gpu().event("xid", **FAULTY), on_gpu,
        lambda: on_gpu().add("gap", [{"source": "nvml", "metric": "xid", "reason": "refused"}])),
    "device-lost": (
        lambda: on_gpu().event("device-lost", device=0, name="A100"), on_gpu,
        lambda: on_gpu(busy=None, memory_used_bytes=None)),
    "no-telemetry": (
        lambda: on_gpu(count=0), on_gpu,
        lambda: training(h2d=None).process().gpu(count=0)),
    "memory-capacity": (
        lambda: on_gpu(memory_used_bytes=78 << 30),
        lambda: on_gpu().host(0.5, memory_total_bytes=64 << 30).add("process_sample", [
            {"t_ns": 0, "pid": 10, "rss_bytes": 1 << 30}]),
        lambda: on_gpu(memory_used_bytes=None)),
    "fragmentation": (lambda: allocator(0.4, 3), lambda: allocator(0.05), on_gpu),
    "mixed-hardware": (
        lambda: two({"name": "NVIDIA H100 PCIe", "catalogue": "h100-pcie-80gb"}),
        lambda: two({}), lambda: two({"name": ""})),
    "wrong-hardware": (
        lambda: on_gpu(details=LOW), on_gpu,
        lambda: on_gpu(name="NVIDIA Mystery 9000", catalogue=None)),
    "unpinned": (
        lambda: copies("HtoD pageable", 2, 60e6), lambda: copies("HtoD pinned", 2, 60e6), copying),
    "too-often": (
        lambda: copies("HtoD pinned", 400, 4e6), lambda: copies("HtoD pinned", 2, 60e6),
        lambda: copying(pin_memory=True)),
    "synchronisation": (
        lambda: synchronising(3), lambda: synchronising(0),
        lambda: synchronising(3, captured=False)),
    "oversized-cluster": (
        lambda: ranks(0.7, 0.7), lambda: ranks(0.1, 0.1), lambda: ranks(0.1, 0.1, False)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_fires(name: str) -> None:
    found = {f.id: f for f in diagnose(CASES[name][0](), now_ns=0).findings}
    assert name in found, sorted(found)
    finding = found[name]
    assert finding.advice and finding.evidence and all(e.text for e in finding.evidence)
    assert finding.speedup_limit is None or finding.speedup_limit >= 1.0


@pytest.mark.parametrize("name", CASES)
def test_clear(name: str) -> None:
    assert isinstance(judged(name, CASES[name][0](), CASES[name][1]()), Clear)


@pytest.mark.parametrize("name", CASES)
def test_cannot_tell(name: str) -> None:
    found = judged(name, CASES[name][0](), CASES[name][2]())
    assert isinstance(found, Undecidable) and found.missing


def of(run: Run, id: str) -> Finding:
    return next(f for f in diagnose(run, now_ns=0).findings if f.id == id)


def test_a_power_cap_costs_a_memory_bound_run_little() -> None:
    """An RTX 3090 at its power cap in 98 % of the samples, decoding: no harm."""
    clock = int(1.25e9)
    run = on_gpu(throttle_bits=0x4, sm_clock_hz=clock, dram_share=0.85, sm_share=0.2)
    found = of(run, "throttled")
    assert found.severity == "info" and found.speedup_limit == pytest.approx(1.01, abs=0.03)
    assert any("costs little" in e.text for e in found.evidence)
    assert diagnose(run, now_ns=0).verdict.bottleneck == "memory-bound"


def test_heat_is_the_cause_of_a_slow_compute_bound_run() -> None:
    report = diagnose(throttled(0x40), now_ns=0)
    assert (report.verdict.bottleneck, report.verdict.cause) == ("compute-bound", "throttled")
    assert 1.2 < (of(throttled(0x40), "throttled").speedup_limit or 0) < 1.6


def test_the_link_is_judged_by_what_was_read_under_load_alone() -> None:
    run = on_gpu(pcie_generation=4, pcie_width=16)
    run.gpu(busy=0.0, index=1, pcie_generation=1, pcie_width=16)
    assert "link-degraded" not in {f.id for f in diagnose(run, now_ns=0).findings}


def test_a_narrow_link_is_the_cause_of_slow_copies() -> None:
    run = training(h2d=30.0).process().gpu(0.6, pcie_generation=4, pcie_width=4)
    report = diagnose(run, now_ns=0)
    assert report.verdict.bottleneck == "inconclusive" or report.verdict.cause == "link-degraded"
    assert "generation 4 x4" in of(run, "link-degraded").title


def test_spare_devices_are_named_with_what_they_would_bring() -> None:
    run = on_gpu()
    for index in (1, 2, 3):
        run.gpu(busy=0.0, index=index, memory_used_bytes=0)
    found = of(run, "idle-device")
    assert found.speedup_limit == 4.0 and "--nproc-per-node=4" in found.advice[0]


def test_a_spare_device_that_others_use_is_not_idle() -> None:
    run = on_gpu().gpu(busy=0.0, index=1, memory_used_bytes=0)
    run.event("device-processes", **(UNSURE | {"device": 1}))
    assert "idle-device" not in {f.id for f in diagnose(run, now_ns=0).findings}


def test_a_cpu_build_of_torch_beside_a_gpu_is_said() -> None:
    run = training(cuda='{"cpus_usable": 8, "torch": "2.13.0+cpu", "cuda": null}')
    found = of(run.process().gpu(busy=0.0, memory_used_bytes=0), "idle-device")
    assert any("built without CUDA" in e.text for e in found.evidence)


def test_a_program_that_faults_is_not_broken_hardware() -> None:
    found = of(on_gpu().event("xid", xid=31, device=0, meaning="memory page fault"), "xid")
    assert found.severity == "warning" and "CUDA_LAUNCH_BLOCKING" in found.advice[0]


def test_a_sync_is_promised_no_more_than_the_shorter_of_host_and_device() -> None:
    """Host 80 %, device 20 % of the time: side by side a fifth of the time is saved."""
    found = of(synchronising(3, busy=0.2), "synchronisation")
    assert found.speedup_limit == pytest.approx(1.25, abs=0.02)


def test_load_of_others_is_never_claimed_in_a_pid_namespace() -> None:
    run = on_gpu().event("device-processes", **UNSURE)
    assert "shared-device" not in {f.id for f in diagnose(run, now_ns=0).findings}


def test_a_gpu_that_nobody_could_read_is_loud() -> None:
    gap = {"source": "nvml", "metric": "*", "reason": "Driver/library version mismatch"}
    run = on_gpu(count=0).add("gap", [gap])
    found = of(run, "no-telemetry")
    assert found.severity == "critical"
    assert any("version mismatch" in e.text for e in found.evidence)
    assert diagnose(run, now_ns=0).verdict.bottleneck == "inconclusive"


def test_accelerators_that_the_job_cannot_use_leave_it_a_cpu_run() -> None:
    run = loop().calibrated().process().gpu(busy=0.0, memory_used_bytes=0)
    assert diagnose(run, now_ns=0).devices[-1].kind == "cpu"


def test_cost_by_the_catalogues_price_and_what_was_lost() -> None:
    """A minute of one A100 of which a quarter waits for data, at the listed price."""
    run = Run(environment=CUDA)
    run.steps(60, 50.0, data_wait=12.5, forward=15.0, backward=20.0)
    run.process().gpu(0.75, power_w=300.0, dram_share=0.2, sm_share=0.9)
    run.add("device_sample", [
        {"t_ns": T0 + 10**9 + i, "device": 0, "power_w": 100.0, "busy_share": 0.0,
         "energy_j": 18_000.0 * i}
        for i in range(2)
    ])  # fmt: skip
    found = diagnose(run, now_ns=0).cost
    assert found.accelerator_s == pytest.approx(60.0)
    assert found.lost_accelerator_s == pytest.approx(15.0, rel=0.15)
    assert found.usd_per_hour and found.price_source and "202" in found.price_source
    assert found.usd == pytest.approx(found.usd_per_hour / 60)
    assert found.lost_usd == pytest.approx(found.usd * found.lost_accelerator_s / 60.0)
    assert found.energy_j == pytest.approx(18_000.0)
    assert sum(loss.accelerator_s for loss in found.losses) == pytest.approx(
        found.lost_accelerator_s, rel=0.01)  # fmt: skip
    assert found.losses[0].share == "input"
    assert found.losses[0].energy_j == pytest.approx(found.losses[0].accelerator_s * 100.0)


def test_an_unknown_price_stays_unknown() -> None:
    found = diagnose(on_gpu(name="NVIDIA Mystery 9000", catalogue=None), now_ns=0).cost
    assert found.accelerator_s == pytest.approx(60.0)
    assert found.usd is found.usd_per_hour is found.lost_usd is found.price_source is None


def test_two_devices_cost_twice() -> None:
    one, both = (diagnose(run, now_ns=0).cost for run in (on_gpu(), two({})))
    assert both.accelerator_s == pytest.approx(2 * (one.accelerator_s or 0))
    assert both.usd_per_hour == pytest.approx(2 * (one.usd_per_hour or 0))


def test_a_gpu_run_is_judged_by_its_own_peaks_not_by_the_cpus() -> None:
    """312 TFLOP/s are an A100's dense bf16: 3.9 TFLOP in a step of 50 ms are a quarter of it."""
    run = training().calibrated().process().gpu()
    run.ops([op("aten::mm", 20, flops=3.9e12, bytes=1e9, dtype="bf16")])
    report = diagnose(run, now_ns=0)
    assert report.utilisation["mfu"] == pytest.approx(0.25, rel=0.02)
    assert report.devices[0].ceilings["source"] == "datasheet"


def test_fp32_products_faster_than_fp32_ran_as_tf32() -> None:
    """3.9 TFLOP in 40 ms are 97 TFLOP/s: above the 19.5 of fp32, so TF32's 156 are the peak."""
    run = training().process().gpu()
    run.ops([op("aten::mm", 40, flops=3.9e12, bytes=1e9, dtype="fp32")])
    assert diagnose(run, now_ns=0).utilisation["mfu"] == pytest.approx(0.5, rel=0.02)


def test_mfu_is_unknown_where_most_work_was_not_counted() -> None:
    run = training().process().gpu()
    run.ops([op("aten::mm", 5, flops=1e12, bytes=1e9), op("mine::kernel", 30)])
    assert diagnose(run, now_ns=0).utilisation["mfu"] is None


def proxy(power: float) -> Run:
    """A card without counters that says 100 % busy and draws so much of its 400 W."""
    about = {"power_limit_w": 400.0}
    return on_gpu(busy=1.0, memory_busy_share=0.1, power_w=power, details=about)


def test_utilisation_alone_does_not_make_a_run_compute_bound() -> None:
    """100 % busy at 25 % of the power limit: one small kernel after the other."""
    assert diagnose(proxy(100.0), now_ns=0).verdict.bottleneck == "inconclusive"
    found = diagnose(proxy(360.0), now_ns=0).verdict
    assert (found.bottleneck, found.confidence) == ("compute-bound", "low")


@pytest.mark.parametrize(
    ("name", "catalogue", "advice"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb", "torch.bfloat16"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb", "torch.float16"),
        ("NVIDIA GeForce GTX 1080 Ti", None, None),
    ],
)
def test_mixed_precision_is_advised_where_the_card_has_it(
    name: str, catalogue: str | None, advice: str | None
) -> None:
    run = training().process().gpu(name=name, catalogue=catalogue)
    run.ops([op("aten::mm", 40, flops=0.5e12, bytes=1e9, dtype="fp32")])
    lines = [f.advice[0] for f in diagnose(run, now_ns=0).findings if f.id == "precision"]
    assert (advice in lines[0]) if advice else not lines
