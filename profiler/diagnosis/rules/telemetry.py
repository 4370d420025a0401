"""A device that the job used and that gave no reading: whatever the report says lacks it."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence
from .common import finding


def judge(view: RunView) -> Judgement:
    if view.imported:
        return Clear()
    environment = view.run.get("environment") or {}
    works = "h2d" in view.observed and bool(environment.get("cuda"))
    if view.devices:
        blind = [d for d in view.devices if d.used and d.readings == 0]
        if not blind:
            return Clear()
        if not works:
            return Undecidable("whether the job used the device")
        names = [f"{d.kind.upper()} {d.index} ({d.name})" for d in blind]
    else:
        if not works:
            return Clear()
        names = ["the GPU"]
    why = next((r for s, m, _, r in view.gaps if s in ("nvml", "dcgm", "amd") and m == "*"), None)
    facts = [evidence(f"the job copied to {name}, which gave no reading at all", "device_samples",
                      0) for name in names[:4]]  # fmt: skip
    if why:
        facts.append(evidence(f"reason: {why}", "reason", why))
    result = finding(
        "no-telemetry", 1.0, "The device that the job used could not be read", facts,
        ["accelprof devices says what can be read and who can change it; until then nothing here "
         "tells a busy device from an idle one"],
    )  # fmt: skip
    result.severity, result.speedup_limit = "critical", None
    return result
