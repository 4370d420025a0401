"""Keys as the bytes that a terminal would send for them."""

from __future__ import annotations

_CURSOR = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_OTHERS = {
    "enter": "\r", "tab": "\t", "shift+tab": "\x1b[Z", "backspace": "\x7f", "escape": "\x1b",
    "space": " ", "insert": "\x1b[2~", "delete": "\x1b[3~", "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~", "ctrl+space": "\x00", "ctrl+at": "\x00", "ctrl+backslash": "\x1c",
    "ctrl+circumflex_accent": "\x1e", "ctrl+underscore": "\x1f",
    "f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~",
    "f6": "\x1b[17~", "f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~",
    "f11": "\x1b[23~", "f12": "\x1b[24~",
}  # fmt: skip
_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4}


def to_bytes(key: str, character: str | None, *, application_cursor: bool) -> bytes | None:
    """For a key by Textual's name and the character it makes; None for one without a meaning."""
    if key in _OTHERS:
        return _OTHERS[key].encode()
    *modifiers, name = key.split("+")
    if name in _CURSOR:
        if modifiers:
            number = 1 + sum(_MODIFIERS.get(modifier, 0) for modifier in modifiers)
            return f"\x1b[1;{number}{_CURSOR[name]}".encode()
        return f"\x1b{'O' if application_cursor else '['}{_CURSOR[name]}".encode()
    if modifiers == ["ctrl"] and len(name) == 1 and name.isalpha():
        return bytes([ord(name.lower()) & 0x1F])
    if modifiers == ["alt"]:
        inner = to_bytes(name, name if len(name) == 1 else None, application_cursor=False)
        return b"\x1b" + inner if inner else None
    return character.encode() if character else None
