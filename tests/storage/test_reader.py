"""Reading: finished, live, killed, damaged, foreign; and the frames of the live socket."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelprof.storage import live
from accelprof.storage.live import FrameError, LiveClient, LiveServer, receive_frame, send_frame
from accelprof.storage.reader import BadRunFile, QueryError, open_run
from accelprof.storage.writer import RunWriter

WRITE = """
import sys
from pathlib import Path
from accelprof.storage.live import LiveServer
from accelprof.storage.writer import RunWriter
folder = Path(sys.argv[1])
writer = RunWriter(folder / "run.duckdb")
server = LiveServer(folder, writer.cursor, query_timeout_s=1.0) if sys.argv[2] == "live" else None
writer.append("gap", [(n, "s", None, None, "r") for n in range(5000)])
writer.flush()
print("ready", flush=True)
sys.stdin.readline()
if server: server.close()
writer.close()
"""


class Writing:
    """A process that writes a run."""

    def __init__(self, folder: Path, serves: bool = True) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITE, folder, "live" if serves else "silent"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout
        assert self.process.stdout.readline() == b"ready\n"

    def end(self) -> None:
        """Lets it close the run."""
        self.process.communicate(b"\n")

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    writing = Writing(tmp_path)
    yield writing
    writing.kill()


VALUES = (
    "SELECT sum(range), 1::HUGEINT << 80, TIMESTAMP '2020-01-01 01:02:03.5', DATE '2020-01-01', "
    "TIME '01:02:03', INTERVAL 3 DAY, 1.50::DECIMAL(5, 2), [1, NULL], MAP {'a': 1.5}, "
    "{'x': DATE '2020-01-01'}, NULL, true, 'é', 'a'::BLOB, "
    "'b3d35889-cbca-4043-b9b6-28f0b17756b4'::UUID, 'inf'::DOUBLE FROM range(10)"
)


def test_live_and_finished_give_the_same_values(writing: Writing) -> None:
    with open_run(writing.folder) as reader:
        assert reader.live
        first = reader.rows(VALUES)
        assert reader.rows("SELECT count(*) FROM gap WHERE t_ns < ?", (7,)) == [(7,)]
        assert reader.dicts("SELECT 1 AS a, 2 AS b") == [{"a": 1, "b": 2}]
        assert len(reader.rows("FROM gap")) == 5000
        writing.end()
        # The same reader goes on with the file.
        assert reader.rows("SELECT count(*) FROM gap") == [(5000,)]
        assert not reader.live
    with open_run(writing.folder / "run.duckdb") as reader:
        assert reader.rows(VALUES) == first
    assert isinstance(first[0][2], dt.datetime) and isinstance(first[0][6], Decimal)


def test_a_killed_writer_leaves_a_readable_run(writing: Writing) -> None:
    writing.kill()
    assert (writing.folder / live.SOCKET).exists()  # stale
    with open_run(writing.folder) as reader:
        assert not reader.live
        assert reader.rows("SELECT count(*) FROM gap") == [(5000,)]


REFUSED = [
    "DROP TABLE gap", "SELECT 1; SELECT 2", "", "nonsense", "SELECT nosuch",
    "INSERT INTO gap VALUES (1, 'a', 'b', 1, 'c')", "COPY gap TO '/tmp/x'", "ATTACH '/tmp/x'",
    "SET threads = 8", "PRAGMA database_list", "EXPLAIN ANALYZE DELETE FROM gap",
    "WITH x AS (INSERT INTO gap VALUES (1, 'a', 'b', 1, 'c') RETURNING *) SELECT * FROM x",
    "SELECT * FROM read_text('/etc/passwd')", "FROM '/etc/passwd'", "BEGIN", "CHECKPOINT",
]  # fmt: skip


def test_only_select_and_only_this_file(writing: Writing) -> None:
    with open_run(writing.folder) as reader:
        for sql in REFUSED:
            with pytest.raises(QueryError):
                reader.rows(sql)
        assert reader.live
        writing.end()
        for sql in REFUSED:
            with pytest.raises(QueryError):
                reader.rows(sql)
        assert reader.rows("SELECT count(*) FROM gap") == [(5000,)]


def test_an_endless_query_is_ended(writing: Writing) -> None:
    with open_run(writing.folder) as reader:
        with pytest.raises(QueryError, match="took over 1 s"):
            reader.rows("SELECT count(*) FROM range(100000000) a, range(100000000) b")
        assert reader.rows("SELECT count(*) FROM gap") == [(5000,)]


def test_the_socket_is_private_and_goes_with_the_agent(writing: Writing) -> None:
    path = writing.folder / live.SOCKET
    assert path.stat().st_mode & 0o777 == 0o600
    writing.end()
    assert not path.exists()


def test_a_writer_that_serves_nobody_is_named(tmp_path: Path) -> None:
    writing = Writing(tmp_path, serves=False)
    try:
        with pytest.raises(BadRunFile, match=rf"held by process {writing.process.pid}"):
            open_run(tmp_path)
    finally:
        writing.kill()


def test_a_hung_agent_is_told_in_time(writing: Writing) -> None:
    client = LiveClient(writing.folder, timeout_s=0.3)
    os.kill(writing.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            client.select("SELECT 1", ())
    finally:
        os.kill(writing.process.pid, signal.SIGCONT)
        client.close()


def test_a_folder_deeper_than_a_socket_path_may_be(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    folder.mkdir(parents=True)
    writing = Writing(folder)
    with open_run(folder) as reader:
        assert reader.live
    writing.end()


def test_a_reader_beside_the_writer(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run.duckdb")
    writer.append("gap", [(1, "s", None, None, "r")])
    with writer.reader() as reader:
        assert reader.rows("SELECT count(*) FROM gap") == [(1,)]
        assert reader.folder == tmp_path
        writer.append("gap", [(2, "s", None, None, "r")])
        writer.flush()
        assert reader.rows("SELECT count(*) FROM gap") == [(2,)]
        with pytest.raises(QueryError):
            reader.rows("DELETE FROM gap")
    writer.close()


# -- bad files -----------------------------------------------------------------------------------


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "run.duckdb"
    writer = RunWriter(path)
    writer.append("worker_batch", [(n, n, n, n, n, n * n) for n in range(50_000)])
    writer.close()
    return path


def _one_line(error: BaseException) -> None:
    assert "\n" not in str(error) and "Traceback" not in str(error)


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"\0" * 20_000, random.Random(1).randbytes(20_000)],
    ids=["empty", "word", "zeros", "noise"],
)
def test_a_foreign_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.duckdb"
    path.write_bytes(data)
    with pytest.raises(BadRunFile, match="not a run file") as caught:
        open_run(path)
    _one_line(caught.value)


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(BadRunFile, match="not a run of accelprof"):
        open_run(tmp_path / "x.duckdb")


def test_a_newer_schema(good: Path) -> None:
    with duckdb.connect(str(good)) as connection:
        connection.execute("UPDATE meta SET value = '2' WHERE key = 'schema_version'")
    with pytest.raises(BadRunFile, match="newer accelprof") as caught:
        open_run(good)
    _one_line(caught.value)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(BadRunFile, match="holds no run"):
        open_run(tmp_path)
    with pytest.raises(BadRunFile, match="no file"):
        open_run(tmp_path / "nosuch.duckdb")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged"
    original = folder / "good" / "run.duckdb"
    if not original.exists():
        original.parent.mkdir(parents=True)
        writer = RunWriter(original)
        writer.append("worker_batch", [(n, n, n, n, n, n * n) for n in range(50_000)])
        writer.close()
    content = bytearray(original.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    for place in data.draw(st.lists(st.integers(0, max(0, len(content) - 1)), max_size=8)):
        if content:
            content[place] ^= 0xFF
    path = folder / "run.duckdb"
    path.write_bytes(content)
    try:
        with open_run(path) as reader:
            reader.rows("SELECT sum(cpu_ns) FROM worker_batch")
    except (BadRunFile, QueryError) as error:
        if isinstance(error, BadRunFile):
            _one_line(error)


# -- frames --------------------------------------------------------------------------------------

SCALARS: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    | st.binary() | st.decimals(allow_nan=False) | st.uuids() | st.dates() | st.datetimes()
    | st.times() | st.timedeltas()
)  # fmt: skip
NESTED = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@given(NESTED)
def test_values_come_through_equal(value: Any) -> None:
    one, other = socket.socketpair()
    with one, other:
        sender = threading.Thread(target=send_frame, args=(one, {"v": live.pack_value(value)}))
        sender.start()
        frame = receive_frame(other, 1 << 20)
        sender.join()
    assert frame is not None
    assert frame["v"] == value
    assert type(frame["v"]) is type(value)


@given(st.binary(max_size=200), st.booleans())
def test_garbage_is_a_frame_error_or_a_frame(data: bytes, with_length: bool) -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall((struct.pack(">I", len(data)) if with_length else b"") + data)
        one.shutdown(socket.SHUT_WR)
        try:
            frame = receive_frame(other, 100)
        except FrameError:
            return
        assert frame is None or isinstance(frame, dict)


def test_a_client_that_talks_nonsense_disturbs_nobody(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run.duckdb")
    writer.flush()
    server = LiveServer(tmp_path, writer.cursor)
    for data in (b"\xff" * 8, struct.pack(">I", 3) + b"abc", b"", struct.pack(">I", 100) + b"x"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / live.SOCKET))
            client.sendall(data)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / live.SOCKET))
        send_frame(client, {"sql": 5, "params": "x"})
        assert receive_frame(client, 1000) == {
            "error": "a query is a text and a list of parameters"
        }
        send_frame(client, {"sql": "SELECT ?", "params": [uuid.UUID(int=1).hex]})
        assert receive_frame(client, 1000) is not None
    with open_run_live(tmp_path) as reader:
        assert reader.select("SELECT 1", ()) == (["1"], [(1,)])
    server.close()
    writer.close()


ENDLESS = "SELECT count(*) FROM range(100000000000) WHERE range % 7 = 3"


def test_a_query_that_runs_at_the_end_is_ended_and_nothing_is_lost(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run.duckdb")
    writer.append("event", [{"t_ns": 1, "kind": "x"}])
    server = LiveServer(tmp_path, writer.cursor)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / live.SOCKET))
        send_frame(client, {"sql": ENDLESS, "params": []})
        deadline = time.monotonic() + 40
        while not server._asking and time.monotonic() < deadline:
            time.sleep(0.01)
        server.close()
        writer.close()
    assert writer.trouble is None
    with open_run(tmp_path) as reader:
        assert reader.rows("SELECT kind FROM event") == [("x",)]


def test_a_reader_of_this_process_that_is_not_done_loses_nothing(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run.duckdb")
    writer.append("event", [{"t_ns": 1, "kind": "x"}])
    cursor = writer.cursor()
    busy = threading.Event()

    def read() -> None:
        busy.set()
        with contextlib.suppress(duckdb.InterruptException):
            cursor.execute(ENDLESS)

    thread = threading.Thread(target=read)
    thread.start()
    busy.wait(10)
    writer.close()
    assert writer.trouble is None
    while thread.is_alive():
        cursor.interrupt()
        thread.join(0.05)
    cursor.close()


class open_run_live:
    """A client of this very process's server."""

    def __init__(self, folder: Path) -> None:
        self.client = LiveClient(folder, timeout_s=5)

    def __enter__(self) -> LiveClient:
        return self.client

    def __exit__(self, *_: object) -> None:
        self.client.close()
