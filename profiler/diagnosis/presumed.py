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


def split(rows: Sequence[OpRow], cpus: int | None, work_s: float) -> Split | None:
    """None where the answer depends on the machine."""
    if not cpus:
        return None
    ceilings = Ceilings({"fp32": FLOPS * cpus}, BYTES_PER_S * cpus, {}, 1e-6, "presumed")
    found = roofline.split(rows, ceilings, work_s)
    if found is None or not found.sturdy or found.dtype not in KNOWN_PRECISIONS:
        return None
    untold = tuple(spot | {"efficiency": None} for spot in found.ops)
    return replace(found, ops=untold, presumed=True)
