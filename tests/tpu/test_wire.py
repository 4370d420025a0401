"""The reader of the runtime's messages on bytes that are none."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from accelprof.profiler.collectors.tpu_wire import Distribution, readings, request


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        readings(data)


@given(st.text(max_size=300))
def test_a_request_is_one_length_delimited_field(name: str) -> None:
    encoded = name.encode("utf-8", "surrogatepass") if name.isascii() else b""
    if encoded:
        assert request(name).endswith(encoded)
        assert request(name)[0] == 0x0A


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=12), st.floats(0.001, 1))
def test_a_quantile_lies_within_the_bounds(buckets: list[int], share: float) -> None:
    bounds = tuple(2.0**n for n in range(len(buckets) - 1))
    value = Distribution(sum(buckets), 1.0, tuple(buckets), bounds).quantile(share)
    if not any(buckets):
        assert value is None
    else:
        assert value is not None
        assert 0 <= value <= bounds[-1]


def test_counts_that_went_back_were_reset() -> None:
    before, after = Distribution(9, 1.0, (4, 5), (1.0,)), Distribution(3, 2.0, (1, 2), (1.0,))
    assert after.minus(before) == after
