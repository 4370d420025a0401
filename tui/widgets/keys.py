"""The line of keys at the bottom. One widget that draws text: textual's own mounts one a key."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.screen import Screen
from textual.widget import Widget

from .. import draw


class KeyLine(Widget):
    """The keys that have a meaning now; a click presses one."""

    DEFAULT_CSS = """
    KeyLine {
        dock: bottom; height: 1; padding: 0 1; background: $footer-background;
        link-style: none; link-color: $text; link-background: $footer-background;
        link-style-hover: underline; link-color-hover: $text; link-background-hover: $boost;
    }
    """

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: Screen[object]) -> None:
        self.refresh()

    def render(self) -> Text:
        line = Text(no_wrap=True, overflow="ellipsis")
        seen = set()
        for key, active in self.screen.active_bindings.items():
            binding = active.binding
            if not binding.show or not active.enabled or binding.action in seen:
                continue
            seen.add(binding.action)
            shown = binding.key_display or self.app.get_key_display(binding)
            press = Style(meta={"@click": f"app.simulate_key('{key}')"})
            line.append("  " if line else "")
            line.append(shown, draw.STRONG + press)
            line.append(f" {binding.description}", press)
        return line
