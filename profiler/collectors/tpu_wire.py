"""The messages of libtpu's metric service, read and written by hand.

Not by generated classes: a second descriptor of the same names would clash with that of tpu-info
or of a job's own monitoring in one process. Protobuf's wire format of these few messages is small.
Package tpu.monitoring.runtime; field numbers stand beside the readers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MOST_BUCKETS = 1024
Scalar = str | bool | int | float
Value = int | float | bytes


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram; `bounds` are the upper bounds of all buckets but the last."""

    count: int = 0
    mean: float = 0.0
    buckets: tuple[int, ...] = ()
    bounds: tuple[float, ...] = ()

    def minus(self, before: Distribution) -> Distribution:
        """What was added since `before`; all of it when the counts were reset meanwhile."""
        count = self.count - before.count
        pairs = list(zip(self.buckets, before.buckets, strict=False))
        if count < 0 or len(pairs) != len(self.buckets) or any(a < b for a, b in pairs):
            return self
        mean = (self.mean * self.count - before.mean * before.count) / count if count else 0.0
        return Distribution(count, max(0.0, mean), tuple(a - b for a, b in pairs), self.bounds)

    def plus(self, other: Distribution) -> Distribution:
        """Both together; that of the same bounds."""
        count = self.count + other.count
        if not count or len(self.buckets) != len(other.buckets):
            return self if self.count >= other.count else other
        mean = (self.mean * self.count + other.mean * other.count) / count
        buckets = tuple(a + b for a, b in zip(self.buckets, other.buckets, strict=True))
        return Distribution(count, mean, buckets, self.bounds or other.bounds)

    def quantile(self, share: float) -> float | None:
        """Interpolated within its bucket; None when empty or without bounds."""
        total = sum(self.buckets)
        if not total or not self.bounds:
            return None
        wanted, seen = share * total, 0
        for index, count in enumerate(self.buckets):
            if count and seen + count >= wanted:
                low = self.bounds[index - 1] if index else 0.0
                high = self.bounds[min(index, len(self.bounds) - 1)]
                return low + (max(high, low) - low) * (wanted - seen) / count
            seen += count
        return self.bounds[-1]


@dataclass(frozen=True, slots=True)
class Reading:
    """One Metric of a response: a gauge or counter, or a distribution, and what it is of."""

    device: int | None = None
    labels: dict[str, Scalar] = field(default_factory=dict)
    value: Scalar | None = None
    distribution: Distribution | None = None


def request(name: str) -> bytes:
    """MetricRequest{1 metric_name}."""
    encoded = name.encode()
    return b"\x0a" + _varint(len(encoded)) + encoded


def readings(response: bytes) -> list[Reading]:
    """MetricResponse{1 TPUMetric{3 repeated Metric}}. ValueError when it is none."""
    found = []
    for number, value in fields(response):
        if number == 1 and isinstance(value, bytes):
            found += [_metric(part) for n, part in fields(value) if n == 3 and _is_bytes(part)]
    return found


def _metric(data: Value) -> Reading:
    """Metric{1 attribute, 3 gauge, 4 counter, 5 distribution}."""
    device: int | None = None
    labels: dict[str, Scalar] = {}
    value: Scalar | None = None
    distribution = None
    for number, part in fields(data):
        if number == 1:
            device, labels = _attribute(part)
        elif number == 3:
            value = _gauge(part)
        elif number == 4:
            value = _counter(part)
        elif number == 5:
            distribution = _distribution(part)
    return Reading(device, labels, value, distribution)


def _attribute(data: Value) -> tuple[int | None, dict[str, Scalar]]:
    """Attribute{1 key, 2 AttrValue}: a plain int is the device; else a list of key and value."""
    key = ""
    labels: dict[str, Scalar] = {}
    plain: Scalar | None = None
    for number, part in fields(data):
        if number == 1:
            key = _text(part)
        elif number == 2:
            plain, labels = _attribute_value(part)
    if plain is not None:
        labels = {key: plain}
    # Newer libtpu gives the ordinal as text.
    ordinal = labels.get("device_ordinal", plain)
    if isinstance(ordinal, str) and ordinal.isdigit():
        ordinal = int(ordinal)
    device = ordinal if isinstance(ordinal, int) and not isinstance(ordinal, bool) else None
    return device, labels


def _attribute_value(data: Value) -> tuple[Scalar | None, dict[str, Scalar]]:
    """AttrValue oneof{1 string, 2 bool, 3 int, 4 double, 6 KeyValueList{1 repeated Attribute}}."""
    plain: Scalar | None = None
    labels: dict[str, Scalar] = {}
    for number, part in fields(data):
        if number == 6:
            for n, inner in fields(part):
                if n == 1:
                    labels |= _attribute(inner)[1]
        else:
            plain = _scalar(number, part)
    # proto3 leaves a zero away only outside a oneof; an empty AttrValue holds nothing.
    return plain, labels


def _scalar(number: int, part: Value) -> Scalar | None:
    if number == 1:
        return _text(part)
    if number == 2:
        return bool(part)
    if number == 3 and isinstance(part, int):
        return _signed(part)
    return part if number == 4 and isinstance(part, float) else None


def _gauge(data: Value) -> Scalar | None:
    """Gauge oneof{1 as_double, 2 as_int, 3 as_string, 4 as_bool}."""
    value: Scalar | None = None
    for number, part in fields(data):
        if number == 1 and isinstance(part, float):
            value = part
        elif number == 2 and isinstance(part, int):
            value = _signed(part)
        elif number == 3:
            value = _text(part)
        elif number == 4:
            value = bool(part)
    return value


def _counter(data: Value) -> Scalar | None:
    """Counter oneof{1 as_double, 2 as_int (unsigned)}."""
    value: Scalar | None = None
    for number, part in fields(data):
        if number in (1, 2) and isinstance(part, int | float):
            value = part
    return value


def _distribution(data: Value) -> Distribution:
    """Distribution{1 count, 2 mean, 6 bucket_options, 7 bucket_counts}."""
    count, mean, options = 0, 0.0, b""
    buckets: list[int] = []
    for number, part in fields(data):
        if number == 1 and isinstance(part, int):
            count = _signed(part)
        elif number == 2 and isinstance(part, float):
            mean = part
        elif number == 6 and isinstance(part, bytes):
            options = part
        elif number == 7:
            buckets += _packed(part)
    if len(buckets) > MOST_BUCKETS or count < 0:
        raise ValueError("not a distribution")
    return Distribution(count, mean, tuple(buckets), _bounds(options, len(buckets)))


def _bounds(data: bytes, buckets: int) -> tuple[float, ...]:
    """Upper bounds: oneof{2 exponential{2 growth, 3 scale}, 3 explicit{1}, 4 linear{2 w, 3 o}}."""
    for number, part in fields(data):
        if not isinstance(part, bytes):
            continue
        if number == 3:
            return tuple(_doubles(part))
        options = {n: v for n, v in fields(part) if isinstance(v, float)}
        many = range(max(0, buckets - 1))
        if number == 2:
            growth, scale = options.get(2, 0.0), options.get(3, 0.0)
            if growth > 1 and scale > 0:
                return tuple(scale * growth**n for n in many)
        elif number == 4:
            width, offset = options.get(2, 0.0), options.get(3, 0.0)
            return tuple(offset + width * n for n in many)
    return ()


def _doubles(data: bytes) -> Iterator[float]:
    """repeated double, packed or not."""
    for number, part in fields(data):
        if number != 1:
            continue
        if isinstance(part, float):
            yield part
        elif isinstance(part, bytes):
            yield from (value for (value,) in struct.iter_unpack("<d", part))


def _packed(part: Value) -> list[int]:
    """repeated int64, packed or not."""
    if isinstance(part, int):
        return [_signed(part)]
    found, at = [], 0
    while isinstance(part, bytes) and at < len(part):
        value, at = _read_varint(part, at)
        found.append(_signed(value))
    return found


def fields(data: Value) -> Iterator[tuple[int, Value]]:
    """(field number, value): doubles as float, the rest as int or bytes. ValueError when broken."""
    if not isinstance(data, bytes):
        raise ValueError("a message was expected")
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: Value
        if kind == VARINT:
            value, at = _read_varint(data, at)
        elif kind == BYTES:
            size, at = _read_varint(data, at)
            value, at = data[at : at + size], at + size
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            if at + size > len(data):
                raise ValueError("cut off")
            (value,) = struct.unpack_from("<d" if size == 8 else "<f", data, at)
            at += size
        else:
            raise ValueError(f"wire type {kind}")
        if not number or at > len(data):
            raise ValueError("cut off")
        yield number, value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
    raise ValueError("a number too long")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _text(part: Value) -> str:
    return part.decode("utf-8", "replace") if isinstance(part, bytes) else ""


def _is_bytes(part: Value) -> bool:
    return isinstance(part, bytes)
