"""The catalogue of accelerators: dense peaks, bandwidth, memory, names, with their sources."""

from __future__ import annotations

import difflib
import re
import tomllib
from functools import cache
from importlib import resources

import msgspec

from ..errors import UserError


class Accelerator(msgspec.Struct, frozen=True):
    """One accelerator as a driver lists it: per card, per TPU chip."""

    id: str
    name: str
    vendor: str
    kind: str  # gpu | tpu
    architecture: str
    flops: dict[str, float]  # dense peak by precision, FLOP/s (int8: OP/s)
    sources: list[str]
    memory_gb: float | None = None  # as printed by the vendor
    bandwidth_gb_s: float | None = None  # decimal GB/s
    year: int | None = None
    compute_capability: str | None = None
    memory_type: str | None = None
    cores: int | None = None
    l2_mb: float | None = None
    boost_clock_mhz: int | None = None
    tdp_w: float | None = None
    host_link: str | None = None
    device_link: str | None = None
    nvml_names: list[str] = []
    aliases: list[str] = []
    sold_as: list[str] = []
    notes: str | None = None

    @property
    def memory_bytes(self) -> int | None:
        """Nominal capacity. Vendors print GB for what drivers report close to in GiB."""
        return None if self.memory_gb is None else int(self.memory_gb * 2**30)

    @property
    def bytes_per_s(self) -> float | None:
        return None if self.bandwidth_gb_s is None else self.bandwidth_gb_s * 1e9


@cache
def catalogue() -> dict[str, Accelerator]:
    """All accelerators by id."""
    text = (resources.files(__package__) / "catalogue.toml").read_text("utf-8")
    rows = tomllib.loads(text)
    return {key: msgspec.convert({"id": key, **row}, Accelerator) for key, row in rows.items()}


def find(name: str) -> Accelerator:
    """The accelerator of that id, alias or name, whatever the case. UserError names the nearest."""
    wanted = _plain(name)
    names: dict[str, Accelerator] = {}
    for item in catalogue().values():
        for known in (item.id, item.name, *item.aliases, *item.nvml_names):
            names.setdefault(_plain(known), item)
    if wanted in names:
        return names[wanted]
    if wanted == "a100":
        raise UserError('"a100" has 40 or 80 GB: name a100-40 or a100-80')
    near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.3)
    hint = f"; the nearest is {names[near[0]].id}" if near else ""
    raise UserError(f'no accelerator "{name}" in the catalogue{hint} (see: accelprof accelerators)')


def by_nvml_name(name: str) -> Accelerator | None:
    """The accelerator that a driver calls by that name; None when unknown (MIG, vGPU, new cards).

    Exact match only: "NVIDIA H200" is a prefix of "NVIDIA H200 NVL", a different card. Drivers
    before 470 leave the "NVIDIA " away.
    """
    for item in catalogue().values():
        for known in item.nvml_names:
            if name in (known, known.removeprefix("NVIDIA "), f"NVIDIA {known}"):
                return item
    return None


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
