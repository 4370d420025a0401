"""Numbers with their units."""

import math

import pytest

from accelprof.profiler.reports import figures


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0, "0 s"), (45e-6, "45 µs"), (0.000999, "999 µs"), (0.1824, "182 ms"),
        (0.9996, "1 s"), (3.25, "3.25 s"), (59.96, "1 min 00 s"), (134.2, "2 min 14 s"),
        (3840, "1 h 04 min"), (266_400, "3 d 02 h"), (-2, "-2 s"), (math.nan, "–"),
    ],
)  # fmt: skip
def test_seconds(value: float | None, text: str) -> None:
    assert figures.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0 %"), (0.0004, "under 0.1 %"), (0.004, "0.4 %"), (0.706, "71 %"),
     (1.0, "100 %")],
)  # fmt: skip
def test_share(value: float | None, text: str) -> None:
    assert figures.share(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (0.0412, "0.0412"), (0.00001, "0.00001"), (5.316, "5.32"),
     (99.96, "100"), (3084.2, "3,084"), (12_345_678, "12,345,678")],
)  # fmt: skip
def test_number(value: float | None, text: str) -> None:
    assert figures.number(value) == text


def test_amounts() -> None:
    assert figures.size(1.5 * 2**30) == "1.5 GiB"
    assert figures.size(1023.9) == "1 KiB"
    assert figures.bandwidth(41.5e9) == "41.5 GB/s"
    assert figures.arithmetic(989e12) == "989 TFLOP/s"
    assert figures.energy(31_300) == "8.69 Wh"
    assert figures.energy(12) == "12 J"
    assert figures.usd(0.1115) == "0.11 USD"
    assert figures.usd(0.0004) == "0.0004 USD"


def test_words() -> None:
    assert figures.count(1, "step") == "1 step"
    assert figures.count(1831, "step") == "1,831 steps"
    assert figures.times(1.06) == "1.06x"
    assert figures.times(3.42) == "3.4x"
    assert figures.clock(3851) == "1:04:11"
    assert figures.moment("2026-01-12T10:15:00Z") == "2026-01-12 10:15 UTC"
    assert figures.moment("yesterday") == "yesterday"
