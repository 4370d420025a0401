"""A dcgm-exporter's page behind a real HTTP server."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

A100 = "GPU-34319582-d595-d1c7-d1d2-179bcfa61660"
OTHER = "GPU-aaaaaaaa-0000-1111-2222-333333333333"

USUAL: dict[str, float | str] = {
    "DCGM_FI_DEV_SM_CLOCK": 1410,
    "DCGM_FI_DEV_MEM_CLOCK": 1215,
    "DCGM_FI_DEV_GPU_TEMP": 60,
    "DCGM_FI_DEV_POWER_USAGE": 312.5,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 9_000_000,
    "DCGM_FI_DEV_GPU_UTIL": 97,
    "DCGM_FI_DEV_MEM_COPY_UTIL": 61,
    "DCGM_FI_DEV_FB_FREE": 35690,
    "DCGM_FI_DEV_FB_USED": 4845,
    "DCGM_FI_PROF_SM_ACTIVE": 0.82,
    "DCGM_FI_PROF_SM_OCCUPANCY": 0.31,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "0.929260",
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.690789,
    "DCGM_FI_PROF_PCIE_TX_BYTES": 33011804,
    "DCGM_FI_PROF_PCIE_RX_BYTES": 97863601,
}


def page(cards: dict[str, dict[str, float | str]], time: str = "", **more: str) -> str:
    """The text for cards by UUID; `more` are labels of every sample."""
    lines = []
    names = dict.fromkeys(name for fields in cards.values() for name in fields)
    for name in names:
        lines += [f"# HELP {name} Some help.", f"# TYPE {name} gauge"]
        for gpu, (uuid, fields) in enumerate(cards.items()):
            labels = {
                "gpu": str(gpu), "UUID": uuid, "device": f"nvidia{gpu}",
                "modelName": "NVIDIA A100-SXM4-80GB", "Hostname": "node-1", **more,
            }  # fmt: skip
            inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
            if name in fields:
                lines.append(f"{name}{{{inside}}} {fields[name]}{time}")
    return "\n".join(lines) + "\n"


class Exporter:
    """Serves `text` at /metrics. `hang`: answers nothing; `drip`: a byte now and then."""

    def __init__(self, text: str = "") -> None:
        self.text, self.status, self.asked = text, 200, 0
        self.hang = self.drip = False
        self._release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                if outer.hang:
                    outer._release.wait(20)
                    return
                self.send_response(outer.status if self.path == "/metrics" else 404)
                self.end_headers()
                while outer.drip and not outer._release.wait(0.05):
                    self.wfile.write(b"#")
                self.wfile.write(outer.text.encode())

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
