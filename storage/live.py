"""Live readers: SELECTs answered over a Unix socket while the writer holds the run file's lock.

A frame is a 4-byte big-endian length and a msgpack map. A client sends `{"sql", "params"}`; the
agent answers `{"columns"}`, any number of `{"rows"}`, and `{"end"}`, or `{"error"}` anywhere.
Both sides bound the size of a frame and the time they wait for one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import msgspec

SOCKET = "agent.sock"
REQUEST_MAX_BYTES = 1 << 20
REPLY_MAX_BYTES = 64 << 20
ROWS_A_FRAME = 2000
QUERY_TIMEOUT_S = 10.0
CLIENT_TIMEOUT_S = QUERY_TIMEOUT_S + 5.0
CLIENTS_AT_ONCE = 32
CLOSING_S = 2.0  # an interrupted query ends within milliseconds
_LENGTH = struct.Struct(">I")
_INT64 = range(-(1 << 63), 1 << 64)
_EXT = 1  # one msgpack extension: "kind:text" for the types that msgpack has not


class FrameError(Exception):
    """A frame that is too long, cut off or not msgpack."""


class LiveError(Exception):
    """The agent answered with an error about the query itself."""


# -- values ------------------------------------------------------------------------------------


def pack_value(value: Any) -> Any:  # noqa: PLR0911
    """`value` in types that msgpack has, so that it comes back equal from `_unpack_extension`."""
    if value is None or isinstance(value, str | float | bool | bytes):
        return value
    if isinstance(value, int):
        return value if value in _INT64 else _extension("int", str(value))
    if isinstance(value, list | tuple):
        return [pack_value(item) for item in value]
    if isinstance(value, dict):
        return {pack_value(key): pack_value(item) for key, item in value.items()}
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return _extension(type(value).__name__, value.isoformat())
    if isinstance(value, dt.timedelta):
        return _extension("timedelta", f"{value.days} {value.seconds} {value.microseconds}")
    if isinstance(value, Decimal):
        return _extension("Decimal", str(value))
    if isinstance(value, uuid.UUID):
        return _extension("UUID", str(value))
    return str(value)


def _extension(kind: str, text: str) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(_EXT, f"{kind}:{text}".encode())


def _timedelta(text: str) -> dt.timedelta:
    days, seconds, microseconds = text.split()
    return dt.timedelta(int(days), int(seconds), int(microseconds))


_KINDS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timedelta": _timedelta,
    "Decimal": Decimal,
    "UUID": uuid.UUID,
}


def _unpack_extension(code: int, data: memoryview) -> Any:
    kind, _, text = bytes(data).decode().partition(":")
    if code != _EXT or kind not in _KINDS:
        raise FrameError(f"unknown value of kind {kind[:20]!r}")
    return _KINDS[kind](text)


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_unpack_extension)


# -- frames ------------------------------------------------------------------------------------


def send_frame(connection: socket.socket, body: dict[str, Any]) -> None:
    """Sends one frame; raises OSError, TimeoutError."""
    payload = _encoder.encode(body)
    connection.sendall(_LENGTH.pack(len(payload)) + payload)


def receive_frame(connection: socket.socket, limit_bytes: int) -> dict[str, Any] | None:
    """One frame; None when the other side closed in order."""
    head = _receive(connection, _LENGTH.size)
    if not head:
        return None
    length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
    if not 0 < length <= limit_bytes:
        raise FrameError(f"a frame of {length} bytes (limit {limit_bytes})")
    payload = _receive(connection, length)
    if len(payload) < length:
        raise FrameError("the connection ended within a frame")
    try:
        body = _decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, TypeError, RecursionError) as error:
        raise FrameError(f"not a frame: {error}") from None
    if not isinstance(body, dict):
        raise FrameError("not a frame: no map")
    return body


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(min(size - len(data), 1 << 18))
        if not chunk:
            break
        data += chunk
    return bytes(data)


@contextlib.contextmanager
def _address(folder: Path) -> Iterator[str]:
    """The socket's path, short enough for sun_path (107 bytes) however deep the folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def _peer_uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("iII", credentials)[1])


# -- the agent's side --------------------------------------------------------------------------


class LiveServer:
    """Answers readers on threads of its own; `cursor` makes one connection for each."""

    def __init__(
        self,
        folder: Path,
        cursor: Callable[[], duckdb.DuckDBPyConnection],
        *,
        query_timeout_s: float = QUERY_TIMEOUT_S,
    ) -> None:
        self._folder = folder
        self._cursor = cursor
        self._timeout_s = query_timeout_s
        self._slots = threading.BoundedSemaphore(CLIENTS_AT_ONCE)
        self._open: dict[socket.socket, threading.Thread] = {}
        self._asking: set[duckdb.DuckDBPyConnection] = set()  # cursors with a query that runs
        self._closed = False
        (folder / SOCKET).unlink(missing_ok=True)  # of an agent that was killed
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _address(folder) as address:
            self._socket.bind(address)
        os.chmod(folder / SOCKET, 0o600)  # noqa: PTH101
        self._socket.listen(128)
        self._thread = threading.Thread(target=self._accept, name="live", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Takes the socket away and ends running queries; waits for no client.

        When it returns no query runs on the file any more: it can be closed.
        """
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        (self._folder / SOCKET).unlink(missing_ok=True)
        deadline = time.monotonic() + CLOSING_S
        self._thread.join(timeout=1.0)
        for connection, thread in list(self._open.items()):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            while thread.is_alive() and time.monotonic() < deadline:
                for cursor in list(self._asking):
                    cursor.interrupt()
                thread.join(timeout=0.02)

    def _accept(self) -> None:
        while not self._closed:
            self._slots.acquire()
            try:
                connection, _ = self._socket.accept()
            except OSError:
                self._slots.release()
                if self._closed:
                    return
                time.sleep(0.05)  # out of descriptors: try again, do not spin
                continue
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="live-client", daemon=True
            )
            self._open[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError, FrameError):
                connection.settimeout(CLIENT_TIMEOUT_S)
                if _peer_uid(connection) not in (os.geteuid(), 0):
                    return
                while request := receive_frame(connection, REQUEST_MAX_BYTES):
                    self._answer(connection, request)
        finally:
            self._open.pop(connection, None)
            self._slots.release()

    def _answer(self, connection: socket.socket, request: dict[str, Any]) -> None:
        cursor = self._cursor()
        self._asking.add(cursor)
        timer = threading.Timer(self._timeout_s, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            columns, rows = select(cursor, request.get("sql"), request.get("params"))
            send_frame(connection, {"columns": columns})
            while chunk := rows.fetchmany(ROWS_A_FRAME):
                send_frame(connection, {"rows": [pack_value(row) for row in chunk]})
            send_frame(connection, {"end": True})
        except LiveError as error:
            send_frame(connection, {"error": str(error)})
        except duckdb.InterruptException:
            send_frame(connection, {"error": f"the query took over {self._timeout_s:g} s"})
        except duckdb.Error as error:
            send_frame(connection, {"error": str(error)[:2000]})
        finally:
            timer.cancel()
            self._asking.discard(cursor)
            cursor.close()


def select(
    connection: duckdb.DuckDBPyConnection, sql: Any, params: Any
) -> tuple[list[str], duckdb.DuckDBPyConnection]:
    """Runs one SELECT in a read-only transaction; its column names and the open result."""
    if not isinstance(sql, str) or not isinstance(params, list | tuple | None):
        raise LiveError("a query is a text and a list of parameters")
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise LiveError("the query is not UTF-8") from None
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise LiveError(str(error)) from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise LiveError("only a single SELECT is allowed")
    # The statement's type alone does not suffice: WITH x AS (INSERT ...) SELECT counts as SELECT.
    connection.execute("BEGIN TRANSACTION READ ONLY")
    result = connection.execute(statements[0], list(params or ()))
    return [column[0] for column in result.description or ()], result


# -- the reader's side -------------------------------------------------------------------------


class LiveClient:
    """One connection to a run's agent. Raises OSError when there is none, FrameError, LiveError."""

    def __init__(self, folder: Path, *, timeout_s: float = CLIENT_TIMEOUT_S) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            with _address(folder) as address:
                self._socket.connect(address)
            if _peer_uid(self._socket) not in (os.geteuid(), folder.stat().st_uid):
                raise PermissionError("the socket belongs to somebody else")
        except BaseException:
            self._socket.close()
            raise

    def select(self, sql: str, params: Sequence[Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of one SELECT."""
        request = {"sql": sql, "params": [pack_value(value) for value in params]}
        send_frame(self._socket, request)
        columns: list[str] = []
        rows: list[tuple[Any, ...]] = []
        while (frame := receive_frame(self._socket, REPLY_MAX_BYTES)) is not None:
            if "error" in frame:
                raise LiveError(str(frame["error"]))
            if "columns" in frame:
                columns = [str(name) for name in frame["columns"]]
            rows.extend(tuple(row) for row in frame.get("rows", ()))
            if "end" in frame:
                return columns, rows
        raise ConnectionResetError("the agent closed the connection")

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()
