"""The feed of a run that has only just been started: its file is there a little later."""

from __future__ import annotations

from pathlib import Path

from ..storage.library import RUN_FILE
from ..storage.reader import BadRunFile, open_run
from .feed import RunFeed
from .model import Request, Snapshot


class JobFeed:
    """Opens the run when its recorder has made it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._feed: RunFeed | None = None

    def snapshot(self, request: Request) -> Snapshot:
        """As RunFeed. Raises `BadRunFile` while there is nothing to read."""
        if self._folder is None:
            raise BadRunFile("this run is not recorded")
        if self._feed is None:
            if not (self._folder / RUN_FILE).exists():
                raise BadRunFile("the recorder is starting")
            self._feed = RunFeed(open_run(self._folder))
        return self._feed.snapshot(request)

    def close(self) -> None:
        """Lets go of the run."""
        if self._feed is not None:
            self._feed.close()
