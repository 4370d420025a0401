"""`accelprof daemon start|stop|status`: the always-on recorder of this host."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from ..daemon import DEVICE_HZ, MAX_BYTES, control
from ..errors import UserError
from ..launch import warn
from .run import checked_rate, disk_limit

NOT_RUNNING = 3


class Action(StrEnum):
    """What to do with the recorder."""

    start = "start"
    stop = "stop"
    status = "status"


def daemon(
    action: Annotated[Action, typer.Argument(help="start, stop or status.", show_default=False)],
    foreground: Annotated[
        bool, typer.Option("--foreground", help="start: stay here, for systemd and containers.")
    ] = False,
    max_disk: Annotated[
        str | None,
        typer.Option(help="start: most the recording may take [default: 2GB].", metavar="SIZE"),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="start: device samples a second [10].", metavar="HZ")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="status: JSON alone on stdout.")] = False,
) -> None:
    """Record this host always: all accelerators and the jobs on them, bounded on disk.

    The last hour is kept at the full rate, then a row a second, then one in 10 s; what does not fit
    into the limit is forgotten, the oldest first. `accelprof report daemon`, `top daemon` and
    `sql daemon` read the recording; `accelprof run` takes its device readings from it.

    Example: accelprof daemon start --max-disk 500MB, then accelprof daemon status
    """
    if action is not Action.start and (foreground or max_disk or rate):
        raise UserError(f"daemon {action}: --foreground, --max-disk and --rate are of `start`")
    if json and action is not Action.status:
        raise UserError(f"daemon {action}: --json is of `status`")
    if action is Action.start:
        _start(foreground, max_disk, rate)
    elif action is Action.stop:
        found = control.stop()
        if found is None:
            warn("the recorder does not run")
            raise typer.Exit(NOT_RUNNING)
        warn(f"stopped the recorder (pid {found.pid}); its recording stays in {found.folder}")
    else:
        _status(json)


def _start(foreground: bool, max_disk: str | None, rate: float | None) -> None:
    limit = disk_limit(max_disk) or MAX_BYTES
    device_hz = checked_rate(rate) or DEVICE_HZ
    if foreground:
        control.run_here(max_disk_bytes=limit, device_hz=device_hz)
    found = control.start(max_disk_bytes=limit, device_hz=device_hz)
    warn(f"recording this host (pid {found.pid}) in {found.folder}")


def _status(json: bool) -> None:
    body = control.status()
    if json:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())
        return
    print("\n".join(_lines(body)))


def _lines(body: dict[str, Any]) -> list[str]:
    if body["running"]:
        lines = [f"recording since {body['since']}, pid {body['pid']}"]
    else:
        lines = ["not running: accelprof daemon start"]
    names = [f"{device['index']}: {device['name']}" for device in body["devices"]]
    if names:
        lines.append("devices    " + ", ".join(names))
    limit = body["disk_limit_bytes"]
    most = f" of {limit / 1e6:,.0f} MB" if limit else ""
    lines.append(f"on disk    {body['disk_bytes'] / 1e6:,.1f} MB{most} in {body['folder']}")
    return lines
