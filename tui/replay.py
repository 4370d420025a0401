"""Where in a run the screen stands: at its newest moment, at a cursor, or playing from one."""

from __future__ import annotations

from .model import Snapshot

PLAY_S = 60.0  # a replay takes about a minute, and never less than real time
SEEKS = 60  # presses of a key from one end to the other


class Replay:
    """The cursor of a run. Every move gets the snapshot that is shown."""

    def __init__(self) -> None:
        self.at_ns: int | None = None  # None: the newest moment
        self.playing = False

    def text(self, seen: Snapshot) -> str:
        """How the replay goes; empty when the newest moment is shown."""
        if self.playing:
            return f"▶ {self.speed(seen):.0f}x"
        return "" if self.at_ns is None else "paused"

    def speed(self, seen: Snapshot) -> float:
        """How much faster than the run it plays."""
        return max(1.0, seen.length_s / PLAY_S)

    def tick(self, seen: Snapshot, seconds: float) -> None:
        """So many seconds of the terminal's clock have passed while playing."""
        self.move(seen, int(seconds * self.speed(seen) * 1e9))

    def seek(self, seen: Snapshot, presses: int) -> None:
        """Moves by a part of the run, at least a second, for each press."""
        length = seen.ended_ns - seen.started_ns
        self.move(seen, presses * max(1_000_000_000, length // SEEKS))

    def move(self, seen: Snapshot, by_ns: int) -> None:
        """Moves within the run; at its end playing is over."""
        at = seen.ended_ns if self.at_ns is None else self.at_ns
        self.go(seen, at + by_ns)

    def go(self, seen: Snapshot, at_ns: int) -> None:
        """To a moment of the run."""
        if at_ns >= seen.ended_ns:
            self.end()
        else:
            self.at_ns = max(seen.started_ns, at_ns)

    def toggle(self, seen: Snapshot) -> None:
        """Plays from the cursor, from the start when it stands at the end; or pauses."""
        self.playing = not self.playing
        if self.playing and self.at_ns is None:
            self.at_ns = seen.started_ns

    def end(self) -> None:
        """To the newest moment."""
        self.at_ns, self.playing = None, False
