"""`%load_ext accelprof`, then `%%accelprof [NAME]` on a cell: it runs as it would, recorded."""

from __future__ import annotations

import html
import importlib
from pathlib import Path
from typing import Any

from ..storage.reader import BadRunFile, open_run
from .commands.opening import examined
from .errors import UserError
from .inside import Recording
from .launch import warn

HEIGHT_PX = 520


def load(shell: Any) -> None:
    """Registers the magic with IPython."""

    def accelprof(line: str, cell: str) -> None:
        """Runs the cell, records it, shows its report. %%accelprof [NAME]"""
        recording = Recording(line.strip() or "cell", quiet=True)
        recording.start()
        failed = True
        try:
            failed = not shell.run_cell(cell).success
        finally:
            recording.stop(failed=failed)
        if recording.folder is not None:
            show(recording.folder)

    shell.register_magic_function(accelprof, "cell", "accelprof")


def show(folder: Path) -> None:
    """The report of a run in the notebook: HTML, with Markdown where that cannot be shown."""
    try:
        bundle = rendered(folder)
    except (BadRunFile, UserError) as error:
        warn(str(error))
        return
    ipython: Any = importlib.import_module("IPython.display")
    ipython.display(bundle, raw=True)


def rendered(folder: Path) -> dict[str, str]:
    """The report by MIME type. The page stands in a frame: its styles are its own."""
    from .exports import series
    from .reports import html as page
    from .reports import markdown, text

    with open_run(folder) as reader:
        report, view = examined(reader)
        whole = page.render(report, series.read(reader, view))
    frame = (
        f'<iframe srcdoc="{html.escape(whole)}" sandbox="allow-scripts" title="accelprof report" '
        f'style="width:100%;height:{HEIGHT_PX}px;border:1px solid #ccc"></iframe>'
    )
    return {"text/html": frame, "text/markdown": markdown.render(report),
            "text/plain": text.render(report)}  # fmt: skip
