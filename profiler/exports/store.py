"""Folders and object stores alike: a URL goes through fsspec (an extra), a path through the OS."""

from __future__ import annotations

import contextlib
import importlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import UserError


def is_remote(place: str) -> bool:
    """`s3://bucket/lake`, not a path."""
    return "://" in place and not place.startswith("file://")


def local(place: str) -> Path:
    """The path of a place that is none of an object store."""
    return Path(place.removeprefix("file://"))


def filesystem(place: str) -> Any:
    """The fsspec file system of a URL. Raises `UserError`."""
    scheme = place.partition("://")[0]
    try:
        return importlib.import_module("fsspec").filesystem(scheme)
    except ImportError as error:
        need = f": {error}" if "fsspec" not in str(error) else ""
        raise UserError(
            f"{place} needs fsspec and its file system for {scheme}{need}: "
            "pip install 'accelprof[fleet]'"
        ) from None
    except ValueError as error:
        raise UserError(f"{place}: {error}") from None


@contextlib.contextmanager
def writing(place: str) -> Iterator[Path]:
    """A folder to write into; what is in it goes to a URL when the block succeeds."""
    if not is_remote(place):
        yield local(place)
        return
    store = filesystem(place)
    with tempfile.TemporaryDirectory(prefix="accelprof-") as folder:
        yield Path(folder)
        for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
            target = f"{place.rstrip('/')}/{path.relative_to(folder).as_posix()}"
            try:
                store.makedirs(target.rpartition("/")[0], exist_ok=True)
                store.put_file(str(path), target)
            except Exception as error:  # each store has exceptions of its own
                raise UserError(f"cannot write {target}: {_first(error)}") from None


def files_below(place: str, folder: str, suffix: str) -> list[str]:
    """The files of a suffix below a folder of a place, in order; of a URL as URLs."""
    if not is_remote(place):
        return sorted(str(path) for path in (local(place) / folder).rglob(f"*{suffix}"))
    store = filesystem(place)
    try:
        found = store.find(f"{place.rstrip('/')}/{folder}")
    except FileNotFoundError:
        return []
    except Exception as error:
        raise UserError(f"{place}: {_first(error)}") from None
    return sorted(store.unstrip_protocol(name) for name in found if name.endswith(suffix))


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
