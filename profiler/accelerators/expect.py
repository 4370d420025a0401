"""Whether the accelerators that are there are the expected ones: `a100-80`, `g4`, `g4dn`, `h100`.

A name may fit several rows of the catalogue: an A100 with 80 GB exists as SXM and as PCIe card.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UserError
from .catalogue import Accelerator, catalogue, find


@dataclass(frozen=True, slots=True)
class Present:
    """One device as it was found."""

    name: str
    catalogue: str | None
    memory_bytes: int | None
    mig: bool = False


def matching(name: str) -> list[Accelerator]:
    """The catalogue's rows that the name fits. UserError with the nearest when there is none."""
    wanted = _words(name)
    plain = "-".join(wanted)
    rows = list(catalogue().values())
    found = [a for a in rows if set(wanted) <= _known_words(a) and wanted]
    # A model's name goes before the name of an instance: "a10" is no Azure "NVadsA10".
    found = found or [a for a in rows if plain in ("-".join(_words(x)) for x in a.aliases)]
    found = found or [a for a in rows if any(plain in _words(sold, "") for sold in a.sold_as)]
    return found or [find(name)]


def listed(name: str) -> list[Accelerator]:
    """The one row that the name means, else all with its words: `a100`, `amd`, `hopper`, `tpu`.

    UserError when there is none.
    """
    try:
        return [find(name)]
    except UserError:
        wanted = set(_words(name))
        about = "{0.vendor} {0.kind} {0.architecture}".format
        rows = catalogue().values()
        found = [a for a in rows if wanted <= _known_words(a) | set(_words(about(a)))]
        if not wanted or not found:
            raise
        return found


def unmet(name: str, devices: Sequence[Present]) -> str | None:
    """Why the devices are not what is expected; None when every one of them is."""
    rows = matching(name)
    ids = {row.id for row in rows}
    wanted = f"{name} ({' or '.join(row.name for row in rows)})"
    if not devices:
        return f"expected {wanted}, found no accelerator"
    for device in devices:
        gib = "" if device.memory_bytes is None else f" with {device.memory_bytes / 2**30:.0f} GiB"
        if device.catalogue not in ids:
            return f"expected {wanted}, found {device.name}{gib}"
        if device.mig:
            return f"expected {wanted}, found {device.name} split into MIG instances"
        nominal = catalogue()[device.catalogue].memory_bytes if device.catalogue else None
        if device.memory_bytes and nominal and not 0.8 < device.memory_bytes / nominal < 1.2:
            return f"expected {wanted}, found {device.name}{gib} of memory"
    return None


def _words(text: str, join: str = "-") -> list[str]:
    """Lower-case words; "80gb" counts as "80"."""
    words = re.split(r"[^a-z0-9.]+" if join else r"[^a-z0-9.-]+", text.lower())
    return [re.sub(r"^(\d+)gb$", r"\1", word) for word in words if word]


def _known_words(item: Accelerator) -> set[str]:
    words = set(_words(item.id)) | set(_words(item.name))
    for name in (*item.nvml_names, *item.aliases):
        words |= set(_words(name))
    if item.memory_gb is not None:
        words.add(f"{item.memory_gb:g}")
    return words
