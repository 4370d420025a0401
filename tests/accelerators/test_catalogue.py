"""The catalogue: every figure has a source, no sparse figure passes as dense, names resolve."""

from __future__ import annotations

import pytest

from accelprof.profiler.accelerators.catalogue import by_nvml_name, catalogue, find
from accelprof.profiler.accelerators.expect import listed
from accelprof.profiler.accelerators.prices import cheapest, offers
from accelprof.profiler.errors import UserError

# Rates with structured sparsity that sheets and tables print as if they were the peak, FLOP/s.
SPARSE = {
    "h100-sxm-80gb": {"fp16": 1979e12, "bf16": 1979e12, "fp8": 3958e12, "tf32": 989e12},
    "h200-sxm-141gb": {"fp16": 1979e12, "bf16": 1979e12, "fp8": 3958e12},
    "h100-nvl-94gb": {"bf16": 1671e12},
    "a100-sxm-80gb": {"fp16": 624e12, "bf16": 624e12, "tf32": 312e12, "int8": 1248e12},
    "a100-sxm-40gb": {"fp16": 624e12, "bf16": 624e12, "tf32": 312e12},
    "l4": {"fp16": 242e12, "bf16": 242e12, "fp8": 485e12, "int8": 485e12},
    "l40s": {"fp16": 733e12, "bf16": 733e12, "fp8": 1466e12},
    "rtx-a6000": {"fp16": 309.7e12, "bf16": 309.7e12},
    "rtx-6000-ada": {"fp8": 1457e12},
    "rtx-4090": {"fp16": 330.3e12, "fp8": 1321e12},
    "b200-sxm": {"bf16": 4500e12, "fp8": 9000e12, "fp4": 18000e12},
    "rtx-pro-6000-blackwell-server": {"bf16": 935.6e12},
}


@pytest.mark.parametrize("item", catalogue().values(), ids=lambda a: a.id)
def test_every_row_has_sources_and_plausible_figures(item) -> None:  # type: ignore[no-untyped-def]
    assert item.sources, "a figure without a source"
    assert all(source.startswith("https://") for source in item.sources)
    assert item.flops and all(1e10 < rate < 1e17 for rate in item.flops.values())
    assert item.bandwidth_gb_s is None or 100 <= item.bandwidth_gb_s <= 20_000
    for slow, fast in (("fp32", "fp16"), ("tf32", "bf16"), ("bf16", "fp8")):
        if slow in item.flops and fast in item.flops:
            assert item.flops[fast] >= item.flops[slow]


def test_no_dense_figure_is_a_sparse_one() -> None:
    for name, rates in SPARSE.items():
        for precision, sparse in rates.items():
            dense = find(name).flops.get(precision)
            assert dense is None or dense < 0.9 * sparse, (name, precision)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("G4", "rtx-pro-6000-blackwell-server"),
        ("h100", "h100-sxm-80gb"),
        ("a100-80", "a100-sxm-80gb"),
        ("A6000", "rtx-a6000"),
        ("v6e", "tpu-v6e"),
        ("Tesla T4", "t4"),
    ],
)
def test_family_names(family: str, expected: str) -> None:
    assert find(family).id == expected


def test_an_ambiguous_or_unknown_name_is_one_clear_line() -> None:
    with pytest.raises(UserError, match="40 or 80"):
        find("A100")
    with pytest.raises(UserError, match="nearest is"):
        find("h1000")
    with pytest.raises(UserError, match="no accelerator"):
        listed("-")


@pytest.mark.parametrize(
    ("name", "some", "least"),
    [
        ("a100", "a100-pcie-80gb", 3), ("AMD", "mi300x", 4), ("tpu", "tpu-v5e", 6),
        ("hopper", "h200-sxm-141gb", 5), ("g4", "rtx-pro-6000-blackwell-server", 1),
    ],
)  # fmt: skip
def test_a_list_of_the_catalogue(name: str, some: str, least: int) -> None:
    found = [item.id for item in listed(name)]
    assert some in found and least <= len(found) < len(catalogue())


def test_driver_names_match_exactly() -> None:
    assert getattr(by_nvml_name("NVIDIA H200"), "id", None) == "h200-sxm-141gb"
    assert getattr(by_nvml_name("NVIDIA H200 NVL"), "id", None) == "h200-nvl-141gb"
    assert getattr(by_nvml_name("A100-SXM4-40GB"), "id", None) == "a100-sxm-40gb"
    assert getattr(by_nvml_name("NVIDIA L4"), "id", None) == "l4"
    assert by_nvml_name("NVIDIA H200 MIG 1g.18gb") is None


def test_prices_name_known_accelerators_and_their_source() -> None:
    for offer in offers():
        assert offer.accelerator in catalogue()
        assert offer.source and offer.count >= 1
    best = cheapest("h100-sxm-80gb", offers())
    assert best is not None and best.usd_per_device_hour is not None
    assert 0.5 < best.usd_per_device_hour < 20
    assert cheapest("tpu-v2", offers()) is None
