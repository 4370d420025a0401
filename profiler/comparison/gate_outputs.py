"""What a gate says: to people, to JUnit readers, to GitHub's annotations."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from ..reports import figures
from ..reports.plain import clean
from .gate import Check, Gate


def text(gate: Gate) -> str:
    """One line a limit, and the sum."""
    lines = [f"{'passed' if c.passed else 'FAILED'}  {sentence(c)}" for c in gate.checks]
    failed = sum(not c.passed for c in gate.checks)
    total = figures.count(len(gate.checks), "limit")
    said = f"{failed} of {total} failed" if failed else f"{total} held"
    return "\n".join([*lines, f"{said}: {clean(gate.run, 100)}"]) + "\n"


def sentence(check: Check) -> str:
    """`max-input-share: 66 %, limit 20 %`."""
    value = _shown(check, check.value) if check.value is not None else "unknown"
    reason = f" ({clean(check.reason, 300)})" if check.reason else ""
    return f"{check.name}: {value}, limit {_shown(check, check.limit)}{reason}"


def _shown(check: Check, value: float | str | None) -> str:
    if isinstance(value, str) or value is None:
        return value or figures.UNKNOWN
    if check.unit == "bytes":
        return figures.size(value)
    return f"{figures.number(value)} {check.unit}".strip()


def junit(gate: Gate) -> str:
    """One test case a limit. Control characters are no XML and are shown as escapes."""
    failed = sum(not c.passed for c in gate.checks)
    counts = {"tests": str(len(gate.checks)), "failures": str(failed), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(
        suites, "testsuite", {"name": "accelprof check", "skipped": "0", **counts}
    )
    for check in gate.checks:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": f"accelprof.{clean(gate.run, 100)}", "name": check.name, "time": "0"},
        )
        if not check.passed:
            failure = ElementTree.SubElement(case, "failure", {"message": sentence(check)})
            failure.text = sentence(check)
        else:
            ElementTree.SubElement(case, "system-out").text = sentence(check)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def github(gate: Gate) -> Iterator[str]:
    """Workflow commands: an error for each limit that failed, a notice when all held."""
    for check in gate.checks:
        if not check.passed:
            title = _property(f"accelprof: {check.name}")
            yield f"::error title={title}::{_data(sentence(check))}"
    if gate.passed:
        yield f"::notice title=accelprof::{_data('; '.join(map(sentence, gate.checks)))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
