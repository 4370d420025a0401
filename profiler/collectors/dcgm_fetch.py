"""Fetches a dcgm-exporter's page, within a timeout as a whole."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.parse
import urllib.request

from .nvml_driver import Missing

URL_VARIABLE = "ACCELPROF_DCGM_URL"
MOST_BYTES = 16 * 2**20


def full_url(text: str) -> str:
    """A URL from what a user writes: host, host:port or the whole of it."""
    url = text if "://" in text else f"http://{text}"
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{URL_VARIABLE}: not an http address: {text}")
    place = parts.netloc if parts.port or "://" in text else f"{parts.netloc}:9400"
    return urllib.parse.urlunsplit((parts.scheme, place, parts.path or "/metrics", parts.query, ""))


# Straight to the exporter: a proxy set for the internet does not know it.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url: str, timeout_s: float) -> str | Missing:
    """The page, within the timeout as a whole."""
    until = time.monotonic() + timeout_s
    try:
        with _OPENER.open(url, timeout=timeout_s) as response:
            parts, size = [], 0
            while part := response.read1(2**16):
                parts.append(part)
                size += len(part)
                if size > MOST_BYTES:
                    return Missing(f"its page is larger than {MOST_BYTES // 2**20} MiB")
                if time.monotonic() > until:
                    return Missing(f"its page took longer than {timeout_s:g} s")
    except urllib.error.HTTPError as error:
        error.close()
        return Missing(f"HTTP status {error.code}")
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        late = isinstance(reason, TimeoutError)
        return Missing(f"no answer within {timeout_s:g} s" if late else str(reason))
    return b"".join(parts).decode("utf-8", "replace")
