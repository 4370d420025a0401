"""`accelprof devices`: the accelerators that are really there, and what can be read of them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..accelerators.catalogue import Accelerator, catalogue
from ..accelerators.expect import Present, matching, unmet
from ..accelerators.pci import PciDevice, pci_accelerators
from ..collectors import once
from ..collectors.nvml_driver import Missing
from ..collectors.nvml_probe import Probed, probe
from ..host_limits import HostLimits, host_limits

GIB = 2**30
FAILED = 1
_WHILE_IDLE = "no job holds it: its runtime answers only while one runs"


def devices(
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
    expect: Annotated[
        str | None,
        typer.Option(help="Exit 1 unless every accelerator is this: a100-80, h100, g4, g4dn."),
    ] = None,
) -> None:
    """Show the accelerators that are here, their limits, and which counters can be read.

    Example: accelprof devices --expect a100-80
    """
    if expect is not None:
        matching(expect)  # a name that no accelerator has is wrong use, whatever is here
    body = survey()
    problem = None if expect is None else _unmet(expect, body["devices"])
    if expect is not None:
        body["expect"] = {"name": expect, "met": problem is None, "reason": problem}
    if json:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())
    else:
        print("\n".join(lines(body)))
    if problem is not None:
        print(f"accelprof: {problem}", file=sys.stderr)
        raise typer.Exit(FAILED)


def survey(root: Path = Path("/")) -> dict[str, Any]:
    """The object that --json prints."""
    found, failure = probe(root=root)
    rows = [_nvidia(device) for device in found]
    on_bus = pci_accelerators(root)
    seen = once.look(root)
    rows += [_seen(one, len(rows) + n) for n, one in enumerate(seen)]
    left = _others(on_bus, bool(found), {one.vendor for one in seen})
    rows += [_unread(device, failure, len(rows) + n) for n, device in enumerate(left)]
    reason = None
    if not rows:
        reason = failure.reason if failure else "no accelerator"
    return {
        "schema": "accelprof.devices/1",
        "devices": rows,
        "reason": reason,
        "host": _host(host_limits(root)),
    }


def _unmet(expect: str, rows: list[dict[str, Any]]) -> str | None:
    present = [
        Present(row["name"], row["catalogue"], row["memory_bytes"], bool(row["mig"]))
        for row in rows
        if row["mig_parent"] is None
    ]
    return unmet(expect, present)


def _nvidia(device: Probed) -> dict[str, Any]:
    known = catalogue().get(device.catalogue or "")
    details = device.details
    memory = device.values.get("memory_total_bytes")
    return {
        "index": device.index,
        "uuid": device.uuid,
        "name": device.name,
        "kind": "gpu",
        "catalogue": device.catalogue,
        "marketing_name": f"{known.vendor} {known.name}" if known else None,
        "sold_as": known.sold_as if known else [],
        "memory_bytes": memory,
        "link": {
            "generation": device.values.get("pcie_generation"),
            "width": device.values.get("pcie_width"),
            "generation_max": details.get("link_generation_max"),
            "width_max": details.get("link_width_max"),
            "between_devices": known.device_link if known else None,
        },
        "limits": {
            key: details.get(key)
            for key in (
                "power_limit_w",
                "power_default_w",
                "sm_clock_max_hz",
                "memory_clock_max_hz",
                "temperature_slowdown_c",
            )
        },
        "compute_capability": details.get("compute_capability"),
        "driver": details.get("driver"),
        "pci": details.get("pci"),
        "cuda_ordinal": details.get("cuda_ordinal"),
        "mig": details.get("mig_mode") == 1,
        "mig_parent": device.mig_parent,
        "notes": [
            *details.get("facts", []),
            *(details[key] for key in ("cuda_note", "numa_note") if key in details),
        ],
        "values": dict(device.values),
        "readable": list(device.values),
        "unreadable": [
            {"metric": name, "reason": why.reason, "who_can_change_it": why.who}
            for name, why in device.missing.items()
        ],
    }


def _seen(one: once.Seen, index: int) -> dict[str, Any]:
    """An accelerator of another vendor, with what could be read of it just now."""
    device, details, values = one.device, one.details, one.values
    known = catalogue().get(device["catalogue"] or "")
    unreadable = one.missing
    if not values:
        unreadable = unreadable or {"*": _WHILE_IDLE}
    return {
        "index": index,
        "uuid": device["uuid"],
        "name": device["name"],
        "kind": device["kind"],
        "catalogue": device["catalogue"],
        "marketing_name": f"{known.vendor} {known.name}" if known else None,
        "sold_as": known.sold_as if known else [],
        "memory_bytes": device["memory_bytes"] or values.get("memory_total_bytes"),
        "link": {
            "generation": values.get("pcie_generation"),
            "width": values.get("pcie_width"),
            "generation_max": details.get("link_generation_max"),
            "width_max": details.get("link_width_max"),
            "between_devices": known.device_link if known else None,
        },
        "limits": {"power_limit_w": values.get("power_limit_w")},
        "compute_capability": None,
        "driver": details.get("driver"),
        "pci": details.get("pci"),
        "cuda_ordinal": None,
        "mig": False,
        "mig_parent": None,
        "notes": [*details.get("facts", [])],
        "values": values,
        "readable": list(values),
        "unreadable": [
            {"metric": metric, "reason": reason, "who_can_change_it": "nobody, or see the reason"}
            for metric, reason in unreadable.items()
        ],
    }


def _others(
    on_bus: Iterable[PciDevice], nvml_works: bool, seen: Collection[str]
) -> list[PciDevice]:
    """What nothing above lists: vendors that gave nothing, NVIDIA's when there is no driver."""
    return [d for d in on_bus if d.vendor not in seen and (d.vendor != "NVIDIA" or not nvml_works)]


def _unread(device: PciDevice, failure: Missing | None, index: int) -> dict[str, Any]:
    known = catalogue().get(device.catalogue or "")
    if device.vendor == "Google":
        why = Missing("read through libtpu while a job runs", None, "the job: it serves them")
    elif device.vendor == "AMD":
        why = Missing("read by amdsmi or the amdgpu driver while a job runs", None, "nobody")
    elif device.vendor == "NVIDIA" and failure is not None:
        why = failure
    else:
        why = Missing("accelprof has no reader for it here", None, "nobody")
    unreadable = {"metric": "*", "reason": why.reason, "who_can_change_it": why.who}
    return {
        "index": index,
        "uuid": None,
        "name": f"Google {known.name}" if known else f"{device.vendor} device {device.device}",
        "kind": "tpu" if device.vendor == "Google" else "gpu",
        "catalogue": device.catalogue,
        "marketing_name": f"{known.vendor} {known.name}" if known else None,
        "sold_as": known.sold_as if known else [],
        "memory_bytes": known.memory_bytes if known else None,
        "link": None,
        "limits": {},
        "compute_capability": None,
        "driver": None,
        "pci": device.address,
        "cuda_ordinal": None,
        "mig": False,
        "mig_parent": None,
        "notes": [],
        "readable": [],
        "unreadable": [unreadable],
    }


def _host(limits: HostLimits) -> dict[str, Any]:
    return {
        "cpus_usable": limits.cpus_usable,
        "cpus_total": limits.cpus_total,
        "cpus_affinity": limits.cpus_affinity,
        "cpus_cpuset": limits.cpus_cpuset,
        "cgroup_cpu_quota": limits.cgroup_cpu_quota,
        "memory_bytes": limits.memory_bytes,
        "cgroup_memory_limit_bytes": limits.cgroup_memory_limit_bytes,
        "shm_bytes": limits.shm_bytes,
    }


def lines(body: dict[str, Any]) -> Iterable[str]:
    """The survey as text that can be pasted into a ticket."""
    for row in body["devices"]:
        yield from _device_lines(row)
        yield ""
    if body["reason"]:
        yield f"no accelerator: {body['reason']}"
        yield ""
    yield _host_line(body["host"])


def _device_lines(row: dict[str, Any]) -> Iterable[str]:
    known: Accelerator | None = catalogue().get(row["catalogue"] or "")
    cuda = "" if row["cuda_ordinal"] is None else f", cuda:{row['cuda_ordinal']}"
    name = f" = {row['marketing_name']} ({known.id})" if known else ""
    yield f"{row['index']}  {row['name']}{name}{cuda}"

    def line(label: str, text: str | None) -> Iterable[str]:
        return [f"   {label:<9} {text}"] if text else []

    yield from line("uuid", row["uuid"])
    yield from line("sold as", ", ".join(row["sold_as"]))
    memory = row["memory_bytes"]
    yield from line("memory", f"{memory / GIB:.1f} GiB" if memory else "unknown")
    yield from line("link", _link(row["link"]))
    yield from line("limits", _limits(row["limits"]))
    parent = row["mig_parent"]
    yield from line("mig", None if parent is None else f"an instance of device {parent}")
    for note in row["notes"]:
        yield from line("note", note)
    yield from line("now", _now(row.get("values") or {}))
    yield from line("readable", ", ".join(row["readable"]))
    grouped: dict[tuple[str, str], list[str]] = {}
    for item in row["unreadable"]:
        key = (item["reason"], item["who_can_change_it"])
        grouped.setdefault(key, []).append(item["metric"])
    for (reason, who), metrics in grouped.items():
        yield from line("missing", f"{', '.join(metrics)}: {reason}")
        if not who.startswith("nobody"):
            yield from line("", f"can be changed by {who}")


def _now(values: dict[str, Any]) -> str:
    """The readings that say most at a glance."""
    shown = (
        ("busy_share", "busy {:.0%}", 1),
        ("memory_used_bytes", "memory {:.1f} GiB used", GIB),
        ("power_w", "{:.0f} W", 1),
        ("temperature_c", "{:.0f} °C", 1),
    )
    return ", ".join(text.format(values[n] / unit) for n, text, unit in shown if n in values)


def _link(link: dict[str, Any] | None) -> str | None:
    if not link or not link["generation_max"]:
        return None
    text = f"PCIe {link['generation_max']}.0 x{link['width_max']} at most"
    if link["generation"]:
        text += f", {link['generation']}.0 x{link['width']} now (idle links slow down)"
    return text + (
        f"; between devices {link['between_devices']}" if link["between_devices"] else ""
    )


def _limits(limits: dict[str, Any]) -> str:
    parts = []
    if limits.get("power_limit_w"):
        default = limits.get("power_default_w")
        parts.append(
            f"{limits['power_limit_w']:.0f} W" + (f" of {default:.0f} W" if default else "")
        )
    if limits.get("sm_clock_max_hz"):
        parts.append(f"SM up to {limits['sm_clock_max_hz'] / 1e6:.0f} MHz")
    if limits.get("temperature_slowdown_c"):
        parts.append(f"slows down at {limits['temperature_slowdown_c']} °C")
    return ", ".join(parts)


def _host_line(host: dict[str, Any]) -> str:
    quota = host["cgroup_cpu_quota"]
    limit = host["cgroup_memory_limit_bytes"]
    parts = [
        f"host: {host['cpus_usable']:g} of {host['cpus_total']} cores usable"
        f" (affinity {host['cpus_affinity']}, cpuset {host['cpus_cpuset'] or 'none'},"
        f" cgroup quota {'none' if quota is None else f'{quota:g}'})",
    ]
    if host["memory_bytes"]:
        parts.append(
            f"memory {host['memory_bytes'] / GIB:.1f} GiB"
            f" (cgroup limit {'none' if limit is None else f'{limit / GIB:.1f} GiB'})"
        )
    if host["shm_bytes"]:
        parts.append(f"/dev/shm {host['shm_bytes'] / GIB:.1f} GiB")
    return ", ".join(parts)
