"""The writer: every column type, bad rows, kill -9, a full disk."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from accelprof.storage import buffer
from accelprof.storage.reader import BadRunFile, open_run
from accelprof.storage.writer import RunWriter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.duckdb"


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_run(path) as reader:
        assert not reader.live
        return reader.rows(sql)


def test_every_kind_of_column(path: Path) -> None:
    writer = RunWriter(path)
    writer.update_run(
        id="x", command=["a", "b c"], tags={"k": "v"}, environment={"python": "3"},
        git_dirty=None, exit_status=3,
    )  # fmt: skip
    writer.append("host_sample", [{"t_ns": 1, "cpu_core_share": [0.5, None]}, {"t_ns": 2}])
    writer.append("event", [(1, "end", None, None, {"signal": 9}), (2, "x", 1, 0, '{"a":1}')])
    writer.close()
    assert rows(path, "SELECT id, command, tags, environment, git_dirty, exit_status FROM run") == [
        ("x", ["a", "b c"], {"k": "v"}, '{"python": "3"}', None, 3)
    ]
    assert rows(path, "SELECT t_ns, cpu_core_share FROM host_sample") == [
        (1, [0.5, None]), (2, None),
    ]  # fmt: skip
    assert rows(path, "SELECT data->>'signal', data->>'a' FROM event") == [
        ("9", None), (None, "1"),
    ]  # fmt: skip


def test_run_has_one_row_however_often_it_is_opened(path: Path) -> None:
    for name in ("a", "b"):
        writer = RunWriter(path)
        writer.update_run(name=name)
        writer.append("gap", [(1, name, None, None, None)])
        writer.close()
    assert rows(path, "SELECT name, state FROM run") == [("b", "running")]
    assert rows(path, "SELECT source FROM gap") == [("a",), ("b",)]


def test_a_file_of_an_older_version_is_written_on(path: Path) -> None:
    RunWriter(path).close()
    with duckdb.connect(str(path)) as older:
        older.execute("ALTER TABLE host_sample DROP COLUMN cgroup_read_bytes_per_s")
        older.execute("DROP VIEW steps")
        older.execute("DROP VIEW timeline")
        older.execute("ALTER TABLE step DROP COLUMN gc_ns")
        older.execute("INSERT INTO host_sample (t_ns) VALUES (1)")
    writer = RunWriter(path)
    writer.append("host_sample", [{"t_ns": 2, "cgroup_read_bytes_per_s": 5.0}])
    writer.append("step", [{"pid": 1, "step": 3, "t_ns": 2, "duration_ns": 9, "gc_ns": 4}])
    writer.close()
    found = rows(path, "SELECT t_ns, cgroup_read_bytes_per_s FROM host_sample ORDER BY t_ns")
    assert found == [(1, None), (2, 5.0)]
    assert rows(path, "SELECT step, gc_ns FROM step") == [(3, 4)]


def test_replace_by_key_and_as_a_whole(path: Path) -> None:
    writer = RunWriter(path)
    for pid in (1, 2):
        writer.replace("process", [{"process": "1-a", "pid": pid}], key=("process",))
        writer.replace("process", [{"process": "2-b", "pid": 7}], key=("process",))
        writer.replace("finding", [{"id": f"f{pid}"}, {"id": "g"}])
        writer.flush()
    writer.set_meta("calibration", "{}")
    writer.set_meta("calibration", "{1}")
    writer.close()
    assert rows(path, "SELECT process, pid FROM process ORDER BY 1") == [("1-a", 2), ("2-b", 7)]
    assert rows(path, "SELECT id FROM finding") == [("f2",), ("g",)]
    assert rows(path, "SELECT value FROM meta WHERE key = 'calibration'") == [("{1}",)]


def test_a_wrong_table_or_column_is_an_error_at_once(path: Path) -> None:
    writer = RunWriter(path)
    with pytest.raises(ValueError, match="no table"):
        writer.append("nosuch", [(1,)])
    with pytest.raises(ValueError, match=r"no columns \['nosuch'\]"):
        writer.append("gap", [{"nosuch": 1}])
    with pytest.raises(ValueError, match="has 5 columns, not 1"):
        writer.append("gap", [(1,)])
    with pytest.raises(ValueError, match="no columns"):
        writer.update_run(nosuch=1)
    writer.close()


def test_text_in_json_that_is_not_utf8_costs_no_row(path: Path) -> None:
    writer = RunWriter(path)
    odd = {"name": "caf\udce9", "path": "\u20ac"}
    writer.append("event", [(1, "a", None, None, odd), (2, "b", None, None, json.dumps(odd))])
    writer.flush()
    writer.close()
    found = rows(path, "SELECT data->>'name', data->>'path' FROM event ORDER BY t_ns")
    assert found == [("caf?", "\u20ac")] * 2
    assert writer.lost == {}


def test_a_bad_value_costs_its_row_only_and_is_told(path: Path) -> None:
    writer = RunWriter(path)
    writer.append("gap", [(n, "s", None, "many" if n == 2 else None, None) for n in range(5)])
    writer.append("gap", [(9, "lone \udc80 surrogate", None, None, None)])
    writer.flush()
    writer.close()
    found = rows(path, "SELECT t_ns, source, reason FROM gap ORDER BY source = 'storage', t_ns")
    assert [row[0] for row in found[:-1]] == [0, 1, 3, 4, 9]
    assert found[4][1] == "lone ? surrogate"
    assert found[-1][0] == 2 and found[-1][2].startswith("1 rows lost over 0.0 s: bad value")
    assert writer.lost["gap"].rows == 1


def test_many_threads(path: Path) -> None:
    writer = RunWriter(path)

    def give(number: int) -> None:
        for n in range(200):
            writer.append("gap", [(n, str(number), None, None, None)])
            if n % 50 == 0:
                writer.flush()

    threads = [threading.Thread(target=give, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert rows(path, "SELECT count(*), count(DISTINCT source) FROM gap") == [(1600, 8)]


KILLED = """
import sys
from pathlib import Path
from accelprof.storage.writer import RunWriter
writer = RunWriter(Path(sys.argv[1]))
for n in range(10_000):
    writer.append("worker_batch", [(n, 1, 0, n, n, n)] * 100)
    writer.flush()
    print(n, flush=True)
"""


def test_kill_9_loses_nothing_that_was_flushed(path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE)
    assert process.stdout
    for line in process.stdout:
        if int(line) == 30:
            break
    process.send_signal(signal.SIGKILL)
    told = [int(line) for line in process.stdout.read().split()]
    process.wait()
    process.stdout.close()
    flushed = max([30, *told]) + 1
    (found,) = rows(path, "SELECT count(*) FROM worker_batch")
    assert found[0] // 100 in (flushed, flushed + 1)
    RunWriter(path).close()  # and it can be written on


def test_a_second_writer_is_refused(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(Exception, match="lock"):
            RunWriter(path)
        process.kill()


@pytest.mark.parametrize("what", ["foreign", "empty", "other database", "newer"])
def test_a_file_that_is_not_ours_is_not_touched(path: Path, what: str) -> None:
    _make(path, what)
    before = path.read_bytes()
    with pytest.raises(BadRunFile):
        RunWriter(path)
    if what in ("foreign", "empty"):
        assert path.read_bytes() == before


def _make(path: Path, what: str) -> None:
    import duckdb

    if what == "foreign":
        path.write_bytes(b"hello" * 5000)
    elif what == "empty":
        path.touch()
    else:
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE meta (key VARCHAR, value VARCHAR)")
            if what == "newer":
                connection.execute("INSERT INTO meta VALUES ('schema_version', '99')")


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def _samples(first: int, count: int) -> list[tuple[Any, ...]]:
    import random

    return [(n, *(random.getrandbits(20) for _ in range(5))) for n in range(first, first + count)]


def test_a_full_disk_costs_the_oldest_rows_and_is_told_when_there_is_space(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "12m") as disk:
        path = disk / "run.duckdb"
        writer = RunWriter(path)
        assert writer.flush()
        ballast = disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        given = 0
        while given < 3 * buffer.ROWS_MAX // 2:
            writer.append("worker_batch", _samples(given, 1000))
            given += 1000
            writer.flush()
        assert writer.trouble and "No space left" in writer.trouble
        ballast.unlink()
        writer.append("worker_batch", _samples(given, 1000))
        assert writer.flush(last=True) and writer.trouble is None
        writer.close()
        lost = writer.lost["worker_batch"].rows
        assert given - buffer.ROWS_MAX <= lost <= given - buffer.ROWS_MAX // 2
        ((count, last),) = rows(path, "SELECT count(*), max(t_ns) FROM worker_batch")
        assert count == given + 1000 - lost
        assert last == given + 999
        reasons = rows(path, "SELECT reason FROM gap WHERE metric = 'worker_batch'")
        assert len(reasons) == 1 and reasons[0][0].startswith(f"{lost} rows lost")
        assert "No space left" in reasons[0][0]


def test_max_bytes_keeps_the_small_tables(path: Path) -> None:
    writer = RunWriter(path, max_bytes=1)
    writer.append("worker_batch", _samples(0, 10))
    writer.append("event", [(1, "end", None, None, None)])
    writer.close()
    assert writer.full and writer.lost["worker_batch"].rows == 10
    assert rows(path, "SELECT count(*) FROM worker_batch") == [(0,)]
    assert rows(path, "SELECT kind FROM event") == [("end",)]
    assert "max-disk" in rows(path, "SELECT reason FROM gap")[0][0]


def test_the_budget(path: Path) -> None:
    """80 rows x 21 columns and a flush in a few ms of CPU, in less than 120 MB."""
    text = f"""
import json, time
from pathlib import Path
from accelprof.storage.writer import RunWriter
writer = RunWriter(Path({str(path)!r}))
row = {{"t_ns": 1, "device": 0, "busy_share": 0.5, "power_w": 300.0}}
times = []
for n in range(50):
    begin = time.process_time()
    writer.append("device_sample", [row] * 80)
    writer.flush()
    times.append(time.process_time() - begin)
writer.close()
peak = [x for x in open("/proc/self/status") if x.startswith("VmHWM")][0].split()[1]
print(json.dumps([sorted(times)[25], int(peak)]))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True)
    median_s, rss_kb = json.loads(done.stdout)
    assert median_s < 0.01
    assert rss_kb < 120_000
