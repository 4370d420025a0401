"""Where nobody could measure a CPU's ceilings: a split that holds for any CPU, or none.

A calibration can fail: a machine too busy to end it in time, a job whose Python is gone. The
answer is then given only if ceilings four times higher or lower than these would not change it,
and no figure that rests on them (efficiency, mfu) is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from . import roofline
from .model import Ceilings, OpRow, Split

# Of a core: times and through `roofline.FAR_OFF`, from a small ARM core's 10 to AVX-512's 160
# GFLOP/s, and from a large server's shared memory (2 GB/s) to a laptop's (32 GB/s)
FLOPS, BYTES_PER_S = 40e9, 8e9
# Matrix units make half precision many times faster on some CPUs and slower on others
KNOWN_PRECISIONS = (None, "fp32")


def measured_nothing(ceilings: Ceilings, threads: int | None) -> bool:
    """Whether a calibration beside other processes shows them and not the machine: products
    slower than those of the slowest CPU."""
    disturbed = any("other processes" in note for note in ceilings.notes)
    slowest = FLOPS / roofline.FAR_OFF * (threads or 1)
    return disturbed and ceilings.flops.get("fp32", slowest) < slowest


def split(rows: Sequence[OpRow], threads: int | None, work_s: float) -> Split | None:
    """None where the answer depends on the machine."""
    if not threads:
        return None
    ceilings = Ceilings({"fp32": FLOPS * threads}, BYTES_PER_S * threads, {}, 1e-6, "presumed")
    found = roofline.split(rows, ceilings, work_s)
    if found is None or not found.sturdy or found.dtype not in KNOWN_PRECISIONS:
        return None
    untold = tuple(spot | {"efficiency": None} for spot in found.ops)
    return replace(found, ops=untold, presumed=True)
