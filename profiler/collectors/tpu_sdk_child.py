"""Reads libtpu's SDK in a process of its own: it may block for minutes, and it may crash.

    python -P tpu_sdk_child.py METRIC...

Prints one line of JSON a round: {metric: [text, ...]}, until its stdin ends. Needs no accelprof.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import select
import signal
import sys
from typing import Any

ROUND_S = 2.0
PR_SET_PDEATHSIG = 1


def monitoring() -> Any:
    """The SDK's module; its name changed."""
    sdk = importlib.import_module("libtpu.sdk")
    return getattr(sdk, "tpumonitoring", None) or sdk.monitoring


def read(source: Any, metric: str) -> list[str]:
    """The values of a metric; none when this libtpu does not offer it."""
    try:
        return [str(value) for value in source.get_metric(metric).data()]
    except Exception:
        return []


def main(metrics: list[str]) -> None:
    """Until stdin ends, or with the parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    source = monitoring()
    while True:
        print(json.dumps({metric: read(source, metric) for metric in metrics}), flush=True)
        if select.select([sys.stdin], [], [], ROUND_S)[0]:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
