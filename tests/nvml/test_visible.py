"""CUDA_VISIBLE_DEVICES in all its forms, on four unlike cards and on cards with MIG."""

from __future__ import annotations

import pytest

from accelprof.profiler.collectors.nvml_visible import Gpu, visible

A, B, C, D = (f"GPU-{letter * 8}-0000-0000-0000-{letter * 12}" for letter in "abcd")
FAST, SLOW = "FASTEST_FIRST", "PCI_BUS_ID"
# NVML lists in PCI order; C is the fastest, then A and D, which are alike, then B.
MIXED = (
    Gpu(A, "00000000:01:00.0", 2.0),
    Gpu(B, "00000000:02:00.0", 1.0),
    Gpu(C, "00000000:81:00.0", 3.0),
    Gpu(D, "00000000:82:00.0", 2.0),
)
ALIKE = tuple(Gpu(gpu.uuid, gpu.pci, 1.0) for gpu in MIXED)
M1, M2, M3 = "MIG-11111111-0000", "MIG-11222222-0000", "MIG-33333333-0000"
OLD = f"MIG-{A}/7/0"
SLICED = (
    Gpu(A, "00000000:01:00.0", 1.0, (M1, M2)),
    Gpu(B, "00000000:02:00.0", 1.0, (M3,)),
)


@pytest.mark.parametrize(
    ("gpus", "order", "value", "expected"),
    [
        (ALIKE, None, None, (A, B, C, D)),
        (ALIKE, None, "1", (B,)),
        (ALIKE, None, "1,0", (B, A)),
        (ALIKE, None, " 2 , 3 ", (C, D)),
        (ALIKE, None, "0,1,2,3", (A, B, C, D)),
        (ALIKE, None, "", ()),
        (ALIKE, None, "-1", ()),
        (ALIKE, None, "0,-1,1", (A,)),
        (ALIKE, None, "0,9,1", (A,)),
        (ALIKE, None, "0,,1", (A,)),
        (ALIKE, None, "NoDevFiles", ()),
        (ALIKE, None, "none", ()),
        (ALIKE, None, "0,0", ()),
        (ALIKE, None, "+1", (B,)),
        (ALIKE, None, "1,++2", (B,)),
        (ALIKE, None, "²", ()),
        (ALIKE, None, f"2,{'9' * 5000}", (C,)),
        (ALIKE, None, f"0,{A}", ()),
        (ALIKE, None, C, (C,)),
        (ALIKE, None, f"{D},{A}", (D, A)),
        (ALIKE, None, "GPU-b", (B,)),
        (ALIKE, None, "GPU-BBBB", (B,)),
        (ALIKE, None, "GPU-", ()),
        (ALIKE, None, "GPU-9", ()),
        (ALIKE, None, f"GPU-9,{A}", ()),
        (MIXED, SLOW, None, (A, B, C, D)),
        (MIXED, SLOW, "1", (B,)),
        (MIXED, FAST, None, (C, A, D, B)),
        (MIXED, None, None, (C, A, D, B)),
        (MIXED, None, "0", (C,)),
        (MIXED, FAST, "3,1", (B, A)),
        (MIXED, FAST, f"{B}", (B,)),
        (tuple(reversed(MIXED)), SLOW, "0", (A,)),
        (SLICED, None, None, (M1,)),
        (SLICED, None, M2, (M2,)),
        (SLICED, None, f"{M3},{M1}", (M3, M1)),
        (SLICED, None, "MIG-3", (M3,)),
        (SLICED, None, "MIG-11", ()),
        (SLICED, None, "1", (M3,)),
        ((Gpu(A, "1", 1.0, (OLD,)),), None, OLD, (OLD,)),
        ((*SLICED, Gpu(C, "00000000:03:00.0", 1.0)), None, None, (C,)),
        ((), None, None, ()),
        ((), None, "0", ()),
    ],
)
def test_visible(
    gpus: tuple[Gpu, ...], order: str | None, value: str | None, expected: tuple[str, ...]
) -> None:
    environment = {"CUDA_DEVICE_ORDER": order, "CUDA_VISIBLE_DEVICES": value}
    given = {key: text for key, text in environment.items() if text is not None}
    assert visible(gpus, given).uuids == expected


@pytest.mark.parametrize(
    ("gpus", "environment", "note"),
    [
        (ALIKE, {"CUDA_VISIBLE_DEVICES": "0,9"}, '"9" names no device'),
        (ALIKE, {"CUDA_VISIBLE_DEVICES": "1,1"}, "twice"),
        (MIXED, {}, "FASTEST_FIRST"),
        (MIXED, {"CUDA_VISIBLE_DEVICES": "0"}, "FASTEST_FIRST"),
        ((*SLICED, Gpu(C, "3", 1.0)), {}, "MIG instances beside whole GPUs"),
        # Certain: no note.
        (MIXED, {"CUDA_VISIBLE_DEVICES": A}, None),
        (MIXED, {"CUDA_DEVICE_ORDER": SLOW}, None),
        (ALIKE, {"CUDA_VISIBLE_DEVICES": "-1"}, None),
        (ALIKE, {}, None),
    ],
)
def test_what_is_uncertain_is_said(
    gpus: tuple[Gpu, ...], environment: dict[str, str], note: str | None
) -> None:
    said = visible(gpus, environment).note
    assert said is None if note is None else note in (said or "")
