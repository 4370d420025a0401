"""What `accelprof import` makes of several files: ranks of one job, folders, logs of nvidia-smi."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelprof.profiler.traces import chrome
from accelprof.profiler.traces.chrome import BadTrace, read_trace
from accelprof.profiler.traces.imported import import_trace
from accelprof.profiler.traces.together import read_any

from .test_import import event, run_import
from .test_nvidia_smi import DMON


def rank_trace(rank: int, world: int, *, work: float, step: float = 100e3) -> dict[str, Any]:
    """Steps of 100 ms in which this rank works for `work` us and waits for the others after it."""
    events = []
    for i in range(8):
        at = i * step
        on_device = {"device": 0, "stream": 7}
        events += [
            event(f"ProfilerStep#{i + 3}", "user_annotation", at, step),
            event("sgemm", "kernel", at, work, **on_device),
            event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", at + work, step - work,
                  device=0, stream=9),
        ]  # fmt: skip
    return {"traceEvents": events, "baseTimeNanoseconds": 1_790_000_000_000_000_000,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
            "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}  # fmt: skip


def query_log(utc_hour: int, minutes: int) -> str:
    """A log of 2026-09-21, a line a second and device, from that hour on; device 1 is idle."""
    lines = ["timestamp, index, name, utilization.gpu [%], power.draw [W], memory.used [MiB]"]
    for second in range(minutes * 60):
        at = f"2026/09/21 {utc_hour:02d}:{second // 60:02d}:{second % 60:02d}.000"
        lines += [f"{at}, 0, NVIDIA A100-SXM4-80GB, 97 %, 312.50 W, 40960 MiB",
                  f"{at}, 1, NVIDIA A100-SXM4-80GB, 0 %, 60.00 W, 4 MiB"]  # fmt: skip
    return "\n".join(lines)


def reports(*paths: Path, home: Path) -> list[dict[str, Any]]:
    done = run_import(*paths, home=home)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_folder_of_ranks_is_one_run_and_other_traces_are_runs_of_their_own(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank, work in enumerate((60e3, 90e3, 60e3)):
        data = json.dumps(rank_trace(rank, 8, work=work)).encode()
        (folder / f"rank-{rank}.json.gz").write_bytes(gzip.compress(data))
    lone = rank_trace(0, 1, work=90e3)
    del lone["distributedInfo"]
    (tmp_path / "lone.json").write_text(json.dumps(lone))
    job, other = reports(folder, tmp_path / "lone.json", home=tmp_path)
    assert job["time"]["ranks"] == 3 and [r["rank"] for r in job["ranks"]] == [0, 1, 2]
    assert job["run"]["name"] == "job" and other["run"]["name"] == "lone"
    assert other["time"]["ranks"] == 1
    assert any("3 of the job's 8 ranks" in note for note in job["quality"]["notes"])
    # The slowest path is rank 1's, which waits least
    assert job["time"]["shares"]["communication"] == pytest.approx(0.1, abs=0.01)


def test_a_log_alone_says_what_the_devices_did_and_not_why(tmp_path: Path) -> None:
    (tmp_path / "gpu.csv").write_text(query_log(10, 2))
    (tmp_path / "dmon.log.gz").write_bytes(gzip.compress(DMON.encode()))
    query, dmon = reports(tmp_path / "gpu.csv", tmp_path / "dmon.log.gz", home=tmp_path)
    for report in (query, dmon):
        assert report["verdict"]["bottleneck"] == "inconclusive"
        assert "accelprof run" in report["verdict"]["headline"]
        assert report["quality"]["hooks"] == "none"
    assert query["utilisation"]["power_w"] == pytest.approx(312.5)
    assert query["run"]["wall_s"] == pytest.approx(119)
    (idle,) = [f for f in query["findings"] if f["id"] == "idle-device"]
    assert "gpu 1" in idle["evidence"][0]["text"]
    assert dmon["devices"][0]["name"] == "GPU" and dmon["devices"][0]["catalogue"] is None


def test_a_log_of_another_time_zone_is_joined_to_the_trace_of_its_device(tmp_path: Path) -> None:
    trace = rank_trace(0, 1, work=90e3)  # starts at 14:13:20 UTC
    (tmp_path / "job.json").write_text(json.dumps(trace))
    (tmp_path / "gpu.csv").write_text(query_log(16, 30))
    (report,) = reports(tmp_path / "job.json", tmp_path / "gpu.csv", home=tmp_path)
    assert report["utilisation"]["power_w"] == pytest.approx(312.5)
    assert report["utilisation"]["device_busy"] == pytest.approx(0.9, abs=0.01)  # the trace's own
    assert any("UTC+02:00" in note for note in report["quality"]["notes"])


def test_the_device_may_be_named(tmp_path: Path) -> None:
    trace = rank_trace(0, 1, work=90e3)
    trace["deviceProperties"] = []
    (tmp_path / "job.json").write_text(json.dumps(trace))
    done = run_import(tmp_path / "job.json", home=tmp_path, options=["--device", "h100-pcie"])
    assert json.loads(done.stdout)["devices"][0]["catalogue"].startswith("h100-pcie")
    done = run_import(tmp_path / "job.json", home=tmp_path, options=["--device", "zx81"])
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_times_in_ns_are_taken_as_such(tmp_path: Path) -> None:
    trace = rank_trace(0, 1, work=90e3)
    base = trace.pop("baseTimeNanoseconds")
    for one in trace["traceEvents"]:
        one["ts"], one["dur"] = base + int(one["ts"] * 1000), int(one["dur"] * 1000)
    (tmp_path / "ns.json").write_text(json.dumps(trace))
    (report,) = reports(tmp_path / "ns.json", home=tmp_path)
    assert report["time"]["step_ms"]["mean"] == pytest.approx(100, rel=0.01)
    assert report["run"]["started_at"].startswith("2026-09-21T14:13:20")


def test_a_bad_event_costs_only_itself(tmp_path: Path) -> None:
    text = json.dumps(rank_trace(0, 1, work=90e3))
    broken = text.replace('"name": "sgemm"', '"name": "sgemm<"x">"', 1)
    broken = broken.replace('"name": "sgemm"', '"name": "sge\nmm"', 1)
    (tmp_path / "x.json").write_text(broken)
    whole = json.loads(text)["traceEvents"]
    trace = read_trace(tmp_path / "x.json")
    assert trace.skipped == 1 and len(trace.events) == len(whole) - 1
    assert trace.distributed["rank"] == 0 and not trace.truncated


def test_a_trace_in_many_pieces_is_the_same_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(rank_trace(0, 1, work=90e3), indent=1))
    whole = read_trace(path)
    monkeypatch.setattr(chrome, "PIECE", 700)
    pieces = read_trace(path)
    assert pieces.events == whole.events and pieces.base_ns == whole.base_ns


CUT = json.dumps(rank_trace(0, 2, work=50e3)).encode()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(CUT)), st.binary(max_size=6), st.booleans())
def test_cut_and_damaged_traces_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, rubbish: bytes, goes_on: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_bytes(CUT[:at] + rubbish + (CUT[at + len(rubbish) :] if goes_on else b""))
    try:
        trace = read_trace(path)
    except BadTrace:
        return
    assert len(trace.events) <= 24
    assert all(e.dur >= 0 for e in trace.events)


def test_of_a_folder_what_cannot_be_read_is_told_and_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    data = json.dumps(rank_trace(0, 2, work=90e3)).encode()
    (folder / "rank-0.json.gz").write_bytes(gzip.compress(data))
    (folder / "rank-1.json.gz").write_bytes(b"")
    done = run_import(folder, home=tmp_path)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1
    assert "left out" in done.stderr and "rank-1" in done.stderr and "Traceback" not in done.stderr


def test_steps_whose_device_part_was_cut_off_are_not_judged(tmp_path: Path) -> None:
    trace = rank_trace(0, 1, work=90e3)
    events = trace["traceEvents"]
    trace["traceEvents"] = sorted(events, key=lambda e: e["cat"] == "kernel")  # as Kineto does
    text = json.dumps({k: trace[k] for k in ("deviceProperties", "traceEvents")})
    path = tmp_path / "cut.json"
    path.write_text(text[: text.index('"sgemm"')])
    found = import_trace(path)
    assert found.steps == 0 and "8 of 8 steps" in found.notes[0]
    path.write_text(text[: len(text) - 200])
    assert import_trace(path).steps == 7  # the last one's kernels are lost


def test_files_of_windows_shells(tmp_path: Path) -> None:
    (tmp_path / "gpu.csv").write_text(query_log(10, 1), encoding="utf-16")
    (tmp_path / "job.json").write_text(json.dumps(rank_trace(0, 1, work=9e4)), "utf-8-sig")
    log, is_log = read_any(tmp_path / "gpu.csv")
    assert is_log and len(log.rows["device_sample"]) == 120
    assert read_any(tmp_path / "job.json")[0].steps == 8


def test_gzip_of_several_members(tmp_path: Path) -> None:
    text = json.dumps(rank_trace(0, 1, work=9e4)).encode()
    parts = [gzip.compress(text[at : at + 700]) for at in range(0, len(text), 700)]
    (tmp_path / "job.json.gz").write_bytes(b"".join(parts) + b"no member")
    assert import_trace(tmp_path / "job.json.gz").steps == 8
