"""A copy of the working folder for the trials, so that their outputs stay out of the original."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..errors import UserError

MOST_BYTES = 1 << 30  # a folder with data beside the code is not copied for each trial
LINKED = (".git", "node_modules")  # not copied: no job writes its outputs there


def refresh(original: Path, copy: Path) -> None:
    """Makes `copy` anew. UserError when the folder is too large for that."""
    size = sum(_sizes(original))
    if size > MOST_BYTES:
        raise UserError(
            f"--scratch: {original} holds {size / 2**30:.1f} GiB, more than the "
            f"{MOST_BYTES >> 30} GiB that are copied for a trial; start from a folder without data"
        )
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(
        original, copy, symlinks=True, ignore=_links, ignore_dangling_symlinks=True,
        copy_function=shutil.copy2,
    )  # fmt: skip
    for folder, names, _ in os.walk(original):
        for name in [n for n in names if _is_link(Path(folder) / n)]:
            names.remove(name)
            target = copy / Path(folder).relative_to(original) / name
            if not target.exists():
                target.symlink_to(Path(folder) / name)


def _is_link(folder: Path) -> bool:
    """Virtual environments and the like are shared, not copied."""
    return folder.name in LINKED or (folder / "pyvenv.cfg").exists()


def _links(folder: str, names: list[str]) -> list[str]:
    return [n for n in names if _is_link(Path(folder) / n)]


def _sizes(original: Path) -> Iterator[int]:
    for folder, names, files in os.walk(original):
        names[:] = [n for n in names if not _is_link(Path(folder) / n)]
        for file in files:
            try:
                yield (Path(folder) / file).lstat().st_size
            except OSError:
                continue
