"""`accelprof serve-metrics`: the runs that are being recorded, for Prometheus."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import UserError
from ..launch import warn


def serve_metrics(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 9471,
    address: Annotated[
        str, typer.Option(help="Address to listen on; other machines see what is not loopback.")
    ] = "127.0.0.1",
) -> None:
    """Serve steps, phases, devices and host of the runs that are alive, as OpenMetrics.

    Needs the extra: pip install 'accelprof[metrics]'. Ends with Ctrl-C.

    Example: accelprof serve-metrics --port 9471
    """
    from ..exports import openmetrics

    prometheus = openmetrics.client()
    registry = prometheus.CollectorRegistry()
    registry.register(openmetrics.Runs())
    try:
        server, thread = prometheus.start_http_server(port, address, registry)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no address"
        raise UserError(f"cannot listen on {address}:{port}: {reason}") from None
    shown = f"[{address}]" if ":" in address else address
    try:
        warn(f"http://{shown}:{server.server_port}/metrics")  # one write: Ctrl-C does not repeat it
        thread.join()
    finally:
        server.shutdown()
        server.server_close()
