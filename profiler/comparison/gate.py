"""`accelprof check`: each limit against its figure. A figure that is not known fails its limit.

A regression fails when it is larger than allowed and more than noise. Where too few steps tell
noise from change, the measured figure alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from ..report import Report
from ..reports import figures
from . import changes, metrics
from .model import Metric
from .sides import Side

DEFAULT_REGRESSION = 5.0  # per cent, when a baseline is given and no other figure


class Check(msgspec.Struct, frozen=True):
    """One limit. `reason`: why the figure is not known, or what goes with it."""

    name: str
    limit: float | str | None
    value: float | str | None
    unit: str
    passed: bool
    reason: str = ""


class Gate(msgspec.Struct, frozen=True):
    run: str
    baseline: str | None
    passed: bool
    checks: list[Check]
    schema: str = "accelprof.check/1"


@dataclass(frozen=True)
class Limits:
    """What was asked for; None is not asked for. Percentages are 0..100."""

    input_share: float | None = None
    throughput: float | None = None
    step_ms: float | None = None
    step_ms_p95: float | None = None
    device_memory_bytes: int | None = None
    host_memory_bytes: int | None = None
    device_busy: float | None = None
    mfu: float | None = None
    usd: float | None = None
    regression: float | None = None
    forbidden: tuple[str, ...] = ()

    @property
    def asked(self) -> bool:
        return self != Limits()


Known = tuple[float | None, str]  # the figure, or why it is not known


def judge(limits: Limits, side: Side, baseline: Side | None = None) -> Gate:
    """All limits that were asked for."""
    found = [*_limits(limits, side.report), *_forbidden(limits, side.report)]
    if baseline is not None:
        allowed = DEFAULT_REGRESSION if limits.regression is None else limits.regression
        found.append(_regression(allowed, baseline, side))
    return Gate(
        side.id, baseline.id if baseline else None, all(check.passed for check in found), found
    )


def _steps(report: Report, value: float | None) -> Known:
    if value is not None:
        return value, ""
    seen = report.time.steps_total
    return None, f"no steady steps among {seen}" if seen else "no steps were seen in this run"


def _input(report: Report) -> Known:
    if report.time.shares:
        return report.time.shares.get("input", 0.0) * 100, ""
    return _steps(report, None)


def _throughput(report: Report) -> Known:
    if report.time.samples_per_s is None and report.time.steps:
        return None, "the samples of a step are not known: accelprof run --samples-per-step N"
    return _steps(report, report.time.samples_per_s)


def _device(report: Report, value: float | None, scale: float = 1.0) -> Known:
    if value is not None:
        return value * scale, ""
    return None, "no accelerator's counter was read in this run"


def _mfu(report: Report) -> Known:
    value = report.utilisation.get("mfu")
    if value is not None:
        return value * 100, ""
    return None, "no operators were captured, or no ceiling of this device is known"


def _host_memory(report: Report) -> Known:
    value = report.memory.host_peak_bytes
    return (None, "the job's memory was not sampled") if value is None else (float(value), "")


def _usd(report: Report) -> Known:
    value = metrics.usd(report)
    return value, "" if value is not None else "no price of this run's devices is known"


@dataclass(frozen=True)
class _Limit:
    name: str
    unit: str
    ask: Callable[[Report], Known]
    limit: Callable[[Limits], float | None]
    least: bool = False  # the limit is a minimum


_LIMITS: tuple[_Limit, ...] = (
    _Limit("max-input-share", "%", _input, lambda x: x.input_share),
    _Limit("min-throughput", "samples/s", _throughput, lambda x: x.throughput, least=True),
    _Limit("max-step-ms", "ms", lambda r: _steps(r, r.time.step_ms.p50), lambda x: x.step_ms),
    _Limit(
        "max-step-ms-p95", "ms", lambda r: _steps(r, r.time.step_ms.p95), lambda x: x.step_ms_p95
    ),
    _Limit(
        "max-memory", "bytes", lambda r: _device(r, r.memory.device_peak_bytes),
        lambda x: x.device_memory_bytes,
    ),
    _Limit("max-host-memory", "bytes", _host_memory, lambda x: x.host_memory_bytes),
    _Limit(
        "min-device-busy", "%", lambda r: _device(r, r.utilisation.get("device_busy"), 100.0),
        lambda x: x.device_busy, least=True,
    ),
    _Limit("min-mfu", "%", _mfu, lambda x: x.mfu, least=True),
    _Limit("max-cost", "USD", _usd, lambda x: x.usd),
)  # fmt: skip


def _limits(limits: Limits, report: Report) -> Iterator[Check]:
    for one in _LIMITS:
        limit = one.limit(limits)
        if limit is None:
            continue
        value, reason = one.ask(report)
        held = value is not None and (value >= limit if one.least else value <= limit)
        yield Check(one.name, float(limit), value, one.unit, held, reason)


def _forbidden(limits: Limits, report: Report) -> Iterator[Check]:
    """Findings that must not be there."""
    found = {finding.id: finding for finding in report.findings}
    for name in limits.forbidden:
        finding = found.get(name)
        seen = finding.title if finding else ""
        yield Check(f"no-{name}", "absent", "found" if finding else "absent", "", not finding, seen)


def _regression(allowed: float, baseline: Side, side: Side) -> Check:
    """Loss of throughput against the baseline, in per cent of it."""
    name = "max-regression"
    rate = _rate(baseline, side)
    if rate is None or rate.ratio is None:
        for which, one in (("the baseline", baseline), ("this run", side)):
            if not one.report.time.steps:
                return Check(name, allowed, None, "%", False, f"no steady steps in {which}")
        return Check(name, allowed, None, "%", False, "the steps of the two differ in size")
    loss = round((1.0 - rate.ratio) * 100, 3)
    was, now = (figures.rate(v, rate.unit.removesuffix("/s")) for v in rate.values)
    told = f"{was} in {baseline.id}, {now} now"
    if loss > allowed and rate.significant is False:
        return Check(name, allowed, loss, "%", True, f"{told}; within noise")
    return Check(name, allowed, loss, "%", loss <= allowed, told)


def _rate(baseline: Side, side: Side) -> Metric | None:
    """Samples per second; steps per second only where both make the same steps."""
    rates = ("samples_per_s", "steps_per_s")
    found = {m.name: m for m in metrics.compared([baseline, side], rates)}
    rate = found.get("samples_per_s")
    if rate is not None and None not in rate.values:
        return rate
    sizes = {changes.settings(one).get("samples a step") for one in (baseline, side)}
    return found.get("steps_per_s") if len(sizes) == 1 else None
