"""The report as JSON, schema "accelprof.report/1": the fields of the Report and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec

from ..report import Report


def render(report: Report) -> str:
    """The report as one indented JSON object. A number that is not finite becomes null."""
    fields = msgspec.to_builtins(report)
    body = {"schema": fields.pop("schema"), **fields}
    return msgspec.json.format(msgspec.json.encode(_encodable(body)), indent=2).decode() + "\n"


def _encodable(value: Any) -> Any:
    """`value` with bytes that were no UTF-8 (lone surrogates) replaced; JSON cannot hold them."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() if not value.isascii() else value
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value
