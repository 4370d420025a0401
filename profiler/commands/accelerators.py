"""`accelprof accelerators [NAME]`: the catalogue, with a source for every figure."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from ..accelerators.catalogue import Accelerator, catalogue
from ..accelerators.expect import listed
from ..accelerators.prices import cheapest, offers


def accelerators(
    name: Annotated[
        str | None, typer.Argument(help="One: h100, g4, v5e; or several: a100, amd, hopper, tpu.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
) -> None:
    """Peak rates (dense), bandwidth, memory and price of the accelerators accelprof knows.

    Example: accelprof accelerators g4, or accelprof accelerators hopper
    """
    chosen = listed(name) if name else list(catalogue().values())
    if json:
        import msgspec

        body = {"schema": "accelprof.accelerators/1", "accelerators": [_row(a) for a in chosen]}
        print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())
    elif len(chosen) == 1:
        _print_one(chosen[0])
    else:
        _print_table(chosen)


def _row(item: Accelerator) -> dict[str, Any]:
    offer = cheapest(item.id, offers())
    return {
        "id": item.id,
        "name": item.name,
        "vendor": item.vendor,
        "kind": item.kind,
        "memory_bytes": item.memory_bytes,
        "bytes_per_s": item.bytes_per_s,
        "flops": item.flops,
        "tdp_w": item.tdp_w,
        "usd_per_hour": offer.usd_per_device_hour if offer else None,
        "price_source": offer.label if offer else None,
        "aliases": item.aliases,
        "sold_as": item.sold_as,
        "nvml_names": item.nvml_names,
        "notes": item.notes,
        "sources": item.sources,
    }


def _rate(item: Accelerator, *precisions: str) -> str:
    value = next((item.flops[p] for p in precisions if p in item.flops), None)
    return "–" if value is None else f"{value / 1e12:.4g}"


def _print_table(items: list[Accelerator]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Dense peaks in TFLOP/s per device; – is unknown or not offered", box=None)
    table.add_column("id")
    for column in ("fp32", "bf16/fp16", "fp8", "GB", "GB/s", "W", "USD/h"):
        table.add_column(column, justify="right")
    prices = offers()
    for item in items:
        offer = cheapest(item.id, prices)
        price = offer.usd_per_device_hour if offer else None
        table.add_row(
            item.id,
            _rate(item, "fp32"),
            _rate(item, "bf16", "fp16"),
            _rate(item, "fp8"),
            *(
                "–" if v is None else f"{v:g}"
                for v in (item.memory_gb, item.bandwidth_gb_s, item.tdp_w)
            ),
            "–" if price is None else f"{price:.2f}",
        )
    width = None if sys.stdout.isatty() else 100
    Console(width=width).print(table)


def _print_one(item: Accelerator) -> None:
    offer = cheapest(item.id, offers())
    lines = [
        f"{item.id}: {item.vendor} {item.name}, {item.architecture}",
        "dense peaks: " + ", ".join(f"{p} {v / 1e12:g} TFLOP/s" for p, v in item.flops.items()),
        f"memory: {_or_unknown(item.memory_gb, 'GB')}, {_or_unknown(item.bandwidth_gb_s, 'GB/s')}",
        f"link: {item.host_link or 'unknown'}; between devices: {item.device_link or 'unknown'}",
        f"power: {_or_unknown(item.tdp_w, 'W')}",
        f"sold as: {'; '.join(item.sold_as) or 'unknown'}",
    ]
    if offer and offer.usd_per_device_hour is not None:
        lines.append(f"price: {offer.usd_per_device_hour:.2f} USD/h per device ({offer.label})")
    else:
        lines.append("price: unknown")
    if item.notes:
        lines.append(f"note: {item.notes}")
    lines += [f"source: {source}" for source in item.sources]
    print("\n".join(lines))


def _or_unknown(value: float | None, unit: str) -> str:
    return f"unknown {unit}" if value is None else f"{value:g} {unit}"
