"""Folders on file systems without locks (some NFS and FUSE mounts), where DuckDB opens no file.

A run is then written to a local temporary folder and put in its place at its end; a finished one is
read from a local copy.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_WITHOUT = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


def locks_work(path: Path) -> bool:
    """Whether this file can be locked at all, by whomever; True when that cannot be found out."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _WITHOUT
    finally:
        os.close(descriptor)
    return True


def local_place(path: Path) -> Path:
    """Where to write instead of `path`; an existing file is copied there to go on with."""
    folder = Path(tempfile.mkdtemp(prefix="accelprof-"))
    if path.exists() and path.stat().st_size:
        shutil.copy(path, folder / path.name)
    return folder / path.name


def put_back(local: Path, path: Path) -> None:
    """The finished file in its place. Raises OSError; then it stays where it was written."""
    partial = path.with_name(f"{path.name}.part")
    shutil.copy(local, partial)
    partial.chmod(0o600)
    partial.replace(path)
    shutil.rmtree(local.parent, ignore_errors=True)


@contextlib.contextmanager
def local_copy(path: Path) -> Iterator[Path]:
    """A copy to open; it is gone afterwards, an open file on it lives on."""
    local = local_place(path)
    try:
        yield local
    finally:
        shutil.rmtree(local.parent, ignore_errors=True)
