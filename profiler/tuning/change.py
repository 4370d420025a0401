"""The line of the user's code to change, before and after, from where the DataLoader is made."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_BYTES = 2 << 20
HINTS = ("DataLoader", "Loader", "dataloader", "loader")


@dataclass(frozen=True)
class Change:
    """`before` and `after` are whole statements of the file, or None where it is not one call."""

    file: str
    line: int
    before: str | None
    after: str | None
    note: str | None = None


def change(where: str | None, wanted: dict[str, Any]) -> Change | None:
    """How the call at `where` (file:line) gets these arguments; None when it is not known."""
    file, _, line = (where or "").rpartition(":")
    if not file or not line.isdigit():
        return None
    text = _text(Path(file))
    call = _call(text, int(line)) if text is not None else None
    arguments = ", ".join(f"{k}={v!r}" for k, v in wanted.items())
    if text is None or call is None:
        note = f"the loader is made below this line, by a library: give it {arguments}"
        return Change(file, int(line), _line(text, int(line)), None, note)
    splat = any(keyword.arg is None for keyword in call.keywords)
    if splat:
        note = f"some of its arguments come from a dictionary: set {arguments} there"
        return Change(file, call.lineno, _lines(text, call), None, note)
    before = _lines(text, call)
    return Change(file, call.lineno, before, _edited(text, call, wanted), _note(text, call, wanted))


def _text(path: Path) -> str | None:
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _call(text: str, line: int) -> ast.Call | None:
    """The call of a loader on that line: by its name, else by an argument only loaders have."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    likely = [node for node in found if _is_loader(node)]
    return max(likely, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def _is_loader(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute):
        inherited = function.attr == "__init__" and isinstance(function.value, ast.Call)
        name = "Loader" if inherited else function.attr
    else:
        name = function.id if isinstance(function, ast.Name) else ""
    own = {"num_workers", "pin_memory", "collate_fn", "batch_sampler", "persistent_workers"}
    return name.endswith(HINTS) or bool(own & {k.arg for k in call.keywords})


def _edited(text: str, call: ast.Call, wanted: dict[str, Any]) -> str:
    """The statement's lines with the arguments put in; those already right are left."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))

    def at(line: int, column: int) -> int:
        return starts[line - 1] + column

    data = text.encode()
    present = {k.arg: k for k in call.keywords}
    edits: list[tuple[int, int, bytes]] = []
    for name, value in wanted.items():
        if name in present:
            old = present[name].value
            edits.append((
                at(old.lineno, old.col_offset), at(old.end_lineno or 0, old.end_col_offset or 0),
                repr(value).encode(),
            ))  # fmt: skip
    new = ", ".join(f"{k}={v!r}" for k, v in wanted.items() if k not in present)
    if new:
        edits.append(_appended(data, call, at, new))
    for start, end, put in sorted(edits, reverse=True):
        data = data[:start] + put + data[end:]
    grown = sum(put.count(b"\n") for _, _, put in edits)
    last = (call.end_lineno or call.lineno) + grown
    return "".join(data.decode().splitlines(keepends=True)[call.lineno - 1 : last]).rstrip("\n")


def _appended(data: bytes, call: ast.Call, at: Any, new: str) -> tuple[int, int, bytes]:
    """New arguments after the last one, or in the empty parentheses."""
    close = at(call.end_lineno, call.end_col_offset) - 1
    given = [*call.args, *(k.value for k in call.keywords)]
    if not given:
        return close, close, new.encode()
    end = max(at(node.end_lineno, node.end_col_offset) for node in given)
    rest = data[end:close]
    if b"," in rest.split(b"#")[0]:  # a trailing comma: on the same line as the last argument
        end += rest.index(b",")
        return end, end + 1, f", {new},".encode()
    return end, end, f", {new}".encode()


def _note(text: str, call: ast.Call, wanted: dict[str, Any]) -> str | None:
    """Where a value is not written in the call itself."""
    away = [
        f"{k.arg} is {ast.get_source_segment(text, k.value)} now: set it where that comes from"
        for k in call.keywords
        if k.arg in wanted and not isinstance(k.value, ast.Constant)
    ]
    return "; ".join(away) or None


def _lines(text: str, call: ast.Call) -> str:
    last = call.end_lineno or call.lineno
    return "\n".join(text.splitlines()[call.lineno - 1 : last])


def _line(text: str | None, number: int) -> str | None:
    lines = (text or "").splitlines()
    return lines[number - 1] if 0 < number <= len(lines) else None
