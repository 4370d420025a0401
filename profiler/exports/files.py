"""Writing whole: a reader never meets a half-written file, and an error is one line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import UserError


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path to write to; what is there takes the place of `path` when the block succeeds."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        draft.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
