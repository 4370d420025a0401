"""Out of the screen: a finding as Markdown, the clipboard through terminal and tmux, a picture."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

from ..profiler.report import Finding, Report
from ..profiler.reports import content
from ..profiler.reports.markdown import prose
from ..storage.library import clean_name

TMUX_WAIT_S = 2.0
# A web font that the picture would be drawn with; a viewer must not go to the network for it
_FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}\s*")


def markdown(report: Report, finding: Finding) -> str:
    """A finding as it is pasted into a ticket."""
    worth = content.worth(finding)
    lines = [f"**{finding.id}** ({finding.severity}{f', {worth}' if worth else ''}): "
             f"{prose(finding.title)}", ""]  # fmt: skip
    lines += [f"- {prose(item.text)}" for item in finding.evidence]
    if finding.advice:
        lines += ["", "Change:", ""]
        lines += [f"{at}. {prose(advice)}" for at, advice in enumerate(finding.advice, 1)]
    lines += ["", f"Run: `{report.run.id}`"]
    return "\n".join(lines) + "\n"


def to_tmux(text: str) -> None:
    """tmux by default ignores the escape sequence that sets a clipboard: it is told directly."""
    if os.environ.get("TMUX"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                ["tmux", "load-buffer", "-w", "-"], input=text.encode(), timeout=TMUX_WAIT_S,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            )  # fmt: skip


def save_picture(svg: str, name: str) -> Path:
    """Writes a picture of the screen into the working directory. Raises OSError."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = Path(f"accelprof-{clean_name(name)}-{stamp}.svg").absolute()
    path.write_text(without_fonts(svg), encoding="utf-8")
    return path


def without_fonts(svg: str) -> str:
    """The picture without anything from the network: any monospaced font will do."""
    return _FONT_FACE.sub("", svg)
