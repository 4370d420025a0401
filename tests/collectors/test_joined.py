"""Readings taken from the host's recorder: none twice, none of the run's last second missing."""

from __future__ import annotations

from pathlib import Path

from accelprof.profiler.collectors.joined import JoinedCollector
from accelprof.profiler.collectors.runner import Runner
from accelprof.storage.live import LiveServer
from accelprof.storage.writer import RunWriter

from .test_runner import Sink


def sample(t_ns: int) -> dict[str, object]:
    return {"t_ns": t_ns, "device": 0, "power_w": float(t_ns)}


def test_what_the_recorder_has_by_the_runs_end_is_the_runs(tmp_path: Path) -> None:
    writer, sink = RunWriter(tmp_path / "run.duckdb"), Sink()

    def newest():  # type: ignore[no-untyped-def]
        writer.flush()
        return writer.cursor()

    server = LiveServer(tmp_path, newest)
    writer.append("device_sample", [sample(5), sample(15)])
    joined = JoinedCollector(tmp_path, since_ns=10)
    runner = Runner([joined], sink, rates_hz={"daemon": 0.01})
    runner.start()
    try:
        sink.wait(lambda: sink.of("device_sample"), 40)
        writer.append("device_sample", [sample(20)])
        writer.append("event", [(21, "xid", None, None, {"xid": 79})])
        runner.close()
        sink.wait(lambda: sink.of("event"), 40)
    finally:
        runner.close()
        server.close()
        writer.close()
    assert [row["t_ns"] for row in sink.of("device_sample")] == [15, 20]
    assert [row["kind"] for row in sink.of("event")] == ["xid"]
