"""What rules share: severity by share of wall time."""

from __future__ import annotations

from ...report import Evidence, Finding, Severity
from ..model import RunView, evidence, speedup_limit
from ..text import duration, percent

# Under 10 % of the time a cause is not worth a change of code; above 30 % it is the first to fix.
WORTH, SERIOUS = 0.10, 0.30


def severity(share: float) -> Severity:
    return "critical" if share >= SERIOUS else "warning" if share >= WORTH else "info"


def finding(
    id: str, share: float, title: str, facts: list[Evidence], advice: list[str], *,
    limit: float | None = None,
) -> Finding:  # fmt: skip
    """A finding that costs `share` of the time."""
    return Finding(
        id=id, severity=severity(share), title=title, evidence=facts, advice=advice,
        speedup_limit=limit if limit is not None else speedup_limit(share),
    )  # fmt: skip


def unpriced(
    id: str, title: str, facts: list[Evidence], advice: list[str], *, severity: Severity = "warning"
) -> Finding:
    """A finding whose share of the time nobody knows: it promises nothing."""
    return Finding(
        id=id, severity=severity, title=title, evidence=facts, advice=advice, speedup_limit=None,
    )  # fmt: skip


def input_facts(view: RunView) -> list[Evidence]:
    share = view.shares.get("input", 0.0)
    facts = [evidence(
        f"the training thread waits for data {percent(share)} of the time", "input_share", share,
    )]  # fmt: skip
    made = view.workers
    if made is None:
        return facts
    workers = f"each of {made.count} workers" if made.count > 1 else "the worker"
    who = "the training process" if made.in_process else workers
    facts.append(evidence(
        f"{who} takes {duration(made.fetch_s)} to make a batch", "batch_s", made.fetch_s, "s",
    ))  # fmt: skip
    if made.cpu_s is not None and made.fetch_s > 0:
        part = made.cpu_s / made.fetch_s
        facts.append(evidence(
            f"{percent(min(1.0, part))} of that is CPU time", "batch_cpu_share", part,
        ))  # fmt: skip
    return facts


def read_from(view: RunView) -> list[Evidence]:
    """The mounts of the files that were read, those on other machines first."""
    told = [e["data"] for e in view.events if e["kind"] == "reads-from" and e["data"]]
    told.sort(key=lambda d: not d.get("remote"))
    return [
        evidence(
            f"files of {d.get('mount')} are read: a mount of {d.get('type')}"
            + (f" from {d.get('source')}, another machine or an object store"
               if d.get("remote") else ""),
            f"read_from:{d.get('mount')}", str(d.get("type")),
        )
        for d in told[:2]
    ]  # fmt: skip


def hot_places(view: RunView, category: str) -> list[Evidence]:
    """The user's lines where the time goes, from stacks."""
    return [
        evidence(f"{percent(share)} of these samples: {place}", "hotspot", place)
        for place, share in view.stacks.hot.get(category, [])[:2]
    ]
