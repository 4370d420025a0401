"""Untrusted input: spools, run files, traces and logs, damaged and hostile.

Whatever is in them, the answer is a result or one of the errors that become one line; no other
exception, no hang, no memory that grows. A seed makes one input, so that a failure can be repeated.
"""

from __future__ import annotations

import gzip
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "collectors"))
sys.path.insert(0, str(Path(__file__).parents[1] / "exports"))
import recorded
from spool_files import CAPACITY, Ring

from accelprof.hooks import wire
from accelprof.profiler import diagnosis
from accelprof.profiler.exports import series
from accelprof.profiler.reports import card, html, json_, markdown, text
from accelprof.profiler.spool import SpoolReader
from accelprof.profiler.steps import StepBuilder
from accelprof.profiler.traces.chrome import BadTrace
from accelprof.profiler.traces.together import read_any
from accelprof.storage.reader import BadRunFile, QueryError, RunReader, open_run

FEW, MANY = 40, 2_500  # inputs of each of the four kinds; MANY of each are the 10,000
INPUT_S = 20.0  # CPU time of one input
GROWTH_BYTES = 400 << 20
HOSTILE = ("", "\x1b[31m\x1b]0;x\x07", "<script>alert(1)</script>", "[x](javascript:alert(1))",
           "a" * 5000, "\u202etxt.exe", "%s%n{0}", "| a |\n# b", "../../etc/passwd",
           "\x00\x7f")  # fmt: skip
NUMBERS = (0, 1, -1, 2**31, 2**63 - 1, -(2**63), 10**18)
FLOATS = ("nan", "inf", "-inf", "1e308", "-1", "0", "1e-300")
JSONS = ("null", "[]", "{}", '"x"', "1e400", "[[[[1]]]]", '{"a": null}', '{"k": "process"}', "[1]",
         '{"cpus_usable": "many"}', '{"threads": -1, "profiler_cpu_s": "x"}',
         '[{"k": 7}]')  # fmt: skip
Trial = Callable[[random.Random, Path], None]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Flipped, cut, doubled or overwritten bytes."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(found) or 1)
        match chance.randrange(5):
            case 0 if found:
                found[at] = chance.randrange(256)
            case 1:
                del found[at : at + chance.randrange(64)]
            case 2:
                found[at:at] = found[at : at + chance.randrange(512)]
            case 3:
                found[at : at + 8] = chance.choice((b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7))
            case 4 if chance.random() < 0.2:
                del found[at:]
    return bytes(found)


# -- the four kinds ------------------------------------------------------------------------------


def spool(chance: random.Random, folder: Path) -> None:
    """Rings and facts, damaged; read as the agent does, and cut into steps."""
    for old in folder.iterdir():
        old.unlink()
    ring = Ring(folder, start=chance.randrange(1 << 40))
    at = 0
    for _ in range(chance.randrange(200)):
        at += chance.choice((10, 1000, 10**9, 10**15))
        ring.write(chance.randrange(24), at, chance.choice((0, 5, 10**6, 2**62)),
                   flags=chance.randrange(64), ident=chance.randrange(40),
                   value=chance.randrange(99))  # fmt: skip
    for _ in range(chance.randrange(6)):
        kind = chance.choice([*vars(wire).values(), 7, None, "", "process"])
        ring.fact(str(kind), pid=chance.choice((1, -5, "x", None, 2**70)),
                  name=chance.choice(HOSTILE), id=chance.choice((*NUMBERS, [], {})))  # fmt: skip
    for path in (ring.path, ring.facts):
        if path.exists() and chance.random() < 0.8:
            path.write_bytes(mutated(path.read_bytes(), chance))
    reader = SpoolReader(folder, alive=lambda _: chance.random() < 0.5)
    try:
        builder = StepBuilder(4242)
        for _ in range(3):
            for news in reader.poll():
                assert len(news.spans) <= CAPACITY
                builder.feed(news.spans)
        builder.finish()
    finally:
        reader.close()


def trace(chance: random.Random, folder: Path) -> None:
    """Chrome traces with wrong types and torn text, plain and packed."""
    events = [_event(chance) for _ in range(chance.randrange(60))]
    base = chance.choice((*NUMBERS, "x", 1.5))
    body: Any = {"traceEvents": events, "baseTimeNanoseconds": base,
                 "deviceProperties": chance.choice(([], [{}], [{"name": 7}], {}, None)),
                 "distributedInfo": chance.choice(({}, {"rank": "x"}, {"rank": -1}, None)),
                 }  # fmt: skip
    data = json.dumps(chance.choice((body, body, body, events))).encode("utf-8", "replace")
    if chance.random() < 0.5:
        data = mutated(data, chance)
    if chance.random() < 0.3:
        data = gzip.compress(data, 1)
        data = mutated(data, chance) if chance.random() < 0.5 else data
    _read(folder / "trace.json", data)


def _event(chance: random.Random) -> Any:
    number = chance.choice((0, 1, -1, 5.5, 1e18, 1e300, "7", None, [], True))
    names = ("aten::mm", "ProfilerStep#3", "ncclKernel_x", "Memcpy HtoD", "void gemm<x>",
             "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", *HOSTILE)  # fmt: skip
    shapes = chance.choice(([[2, 3], [3, 4]], [[-1]], "x", [[[[]]]], [[10**30]], None, [["a"]]))
    found = {
        "ph": chance.choice(("X", "X", "X", "X", "B", "i", 7)), "name": chance.choice(names),
        "cat": chance.choice(("cpu_op", "kernel", "gpu_memcpy", "user_annotation", "", None)),
        "ts": chance.choice((chance.random() * 1e6, number)),
        "dur": chance.choice((chance.random() * 1e4, number)),
        "pid": chance.choice((1, "host", number)), "tid": chance.choice((1, 2, number)),
        "args": chance.choice(({}, {"Input Dims": shapes, "Input type": chance.choice(
            (["float"], [7], "x", None)), "External id": number, "device": number,
            "correlation": number, "bytes": number, "Concrete Inputs": shapes}, None, [])),
    }  # fmt: skip
    for key in [key for key in found if chance.random() < 0.05]:
        del found[key]
    return found if chance.random() < 0.97 else chance.choice((None, 7, [], "x"))


def smi(chance: random.Random, folder: Path) -> None:
    """Logs of nvidia-smi, torn."""
    head = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]\n"
    lines = "".join(
        f"2026/01/12 10:16:{n % 60:02}.000, {n % 2}, {chance.choice(('H100', *HOSTILE))}, "
        f"{chance.choice((40, '[N/A]', -7, 1e300, 'nan'))} %, 7 MiB, 300 W\n"
        for n in range(chance.randrange(40))
    )
    dmon = "# gpu pwr gtemp mtemp sm mem\n# Idx W C C % %\n" + "    0 70 40 - 99 30\n" * 20
    _read(folder / "gpu.csv", mutated(chance.choice((head + lines, dmon)).encode(), chance))


def _read(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        read_any(path)
    except BadTrace as error:
        assert len(str(error).splitlines()) == 1


class RunFile:
    """A good run in memory, whose values are replaced by hostile ones, and restored."""

    def __init__(self, folder: Path) -> None:
        self.file = recorded.record(folder, gpu=True, steps=60) / "run.duckdb"
        self.good = self.file.read_bytes()
        self.base = duckdb.connect()
        self.base.execute(f"ATTACH '{self.file}' AS good (READ_ONLY)")
        schema = Path(__file__).parents[2] / "storage" / "schema.sql"
        self.base.execute(schema.read_text())
        self.columns: dict[str, list[tuple[str, str]]] = {}
        for table, column, kind in self.base.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE database_name = 'memory' AND NOT internal AND table_name NOT IN "
            "('steps', 'timeline', 'meta')"
        ).fetchall():
            self.columns.setdefault(table, []).append((column, kind))

    def values(self, chance: random.Random, folder: Path) -> None:
        for table in [*self.columns, "meta"]:
            self.base.execute(f'DELETE FROM "{table}"')
            self.base.execute(f'INSERT INTO "{table}" BY NAME FROM good."{table}"')
        for _ in range(chance.randint(1, 6)):
            table = chance.choice(list(self.columns))
            column, kind = chance.choice(self.columns[table])
            part = chance.choice((1.0, 0.5, 0.02))
            where = f"WHERE hash(rowid + {chance.randrange(1000)}) % 100 < {part * 100}"
            match chance.randrange(6):
                case 0:
                    self.base.execute(f'DELETE FROM "{table}" {where}')
                case 1:
                    self.base.execute(f'INSERT INTO "{table}" FROM "{table}" LIMIT 50')
                case _:
                    self.base.execute(
                        f'UPDATE "{table}" SET "{column}" = CAST(? AS {kind}) {where}',
                        [_hostile(kind, chance)],
                    )
        try:
            render(RunReader.within(folder, self.base.cursor))
        except QueryError as error:  # a sum that overflows: one line to the user
            assert "Out of Range" in str(error)

    def bytes(self, chance: random.Random, folder: Path) -> None:
        path = folder / "run.duckdb"
        path.write_bytes(mutated(self.good, chance))
        try:
            with open_run(path) as reader:
                render(reader)
        except (BadRunFile, QueryError) as error:
            assert len(str(error).splitlines()) <= 3

    def __call__(self, chance: random.Random, folder: Path) -> None:
        (self.values if chance.random() < 0.8 else self.bytes)(chance, folder)


def _hostile(kind: str, chance: random.Random) -> Any:
    kinds: dict[str, tuple[Any, ...]] = {
        "JSON": JSONS, "DOUBLE": FLOATS, "BIGINT": NUMBERS, "BOOLEAN": (True, False),
        "INTEGER": tuple(n for n in NUMBERS if -(2**31) <= n < 2**31),
        "VARCHAR[]": ([], [chance.choice(HOSTILE)], [None]),
    }  # fmt: skip
    if kind.startswith("MAP"):
        return {chance.choice(HOSTILE): chance.choice(HOSTILE)}
    return chance.choice((None, *kinds.get(kind, HOSTILE if kind == "VARCHAR" else ())))


def render(reader: RunReader) -> None:
    """The report in every format; nothing of the run reaches a terminal or a page raw."""
    report, view = diagnosis.examine(reader, now_ns=recorded.recording.START_NS + 10**11)
    found = series.read(reader, view)
    for written in (markdown.render(report), text.render(report), card.render_card(report, False)):
        assert "\x1b" not in written and "\x07" not in written
    page = html.render(report, found)
    assert "<script>alert" not in page
    json.loads(json_.render(report))


# -- how many ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trial]:
    made = RunFile(tmp_path_factory.mktemp("good"))
    return {"spool": spool, "trace": trace, "smi": smi, "run file": made}


KINDS = ("spool", "trace", "smi", "run file")


def attack(trial: Trial, folder: Path, count: int) -> None:
    """`count` inputs, each within its time; memory stays where it was after the first ones."""
    peak: list[int] = []

    @settings(max_examples=count, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @example(142)
    @given(st.integers(0, 2**48))
    def one(seed: int) -> None:
        began_s = time.process_time()
        trial(random.Random(seed), folder)
        assert time.process_time() - began_s < INPUT_S
        if len(peak) < 10:
            peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)

    one()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - peak[-1] < GROWTH_BYTES


@pytest.mark.parametrize("kind", KINDS)
def test_some_inputs(trials: dict[str, Trial], kind: str, tmp_path: Path) -> None:
    attack(trials[kind], tmp_path, FEW)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_inputs(trials: dict[str, Trial], kind: str, tmp_path: Path) -> None:
    attack(trials[kind], tmp_path, MANY)


def corpus() -> Iterator[tuple[str, bytes]]:
    """Inputs that broke readers elsewhere."""
    yield "deep", b'{"traceEvents": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}"
    yield "long number", b'{"traceEvents": [{"ph": "X", "ts": ' + b"9" * 200_000 + b', "dur": 1}]}'
    yield "bomb", gzip.compress(b'{"traceEvents": [' + b" " * (64 << 20), 9)
    yield (
        "bomb of events",
        gzip.compress(b'{"traceEvents": [' + b'{"ph":"X","name":"a","ts":1,"dur":1},' * 200_000, 9),
    )
    yield "not UTF-8", b'{"traceEvents": [{"ph": "X", "name": "\xff\xfe", "ts": 1, "dur": 1}]}'
    yield "surrogate", b'{"traceEvents": [{"ph": "X", "name": "\\ud800", "ts": 1, "dur": 1}]}'
    yield "twice", b'{"traceEvents": [], "traceEvents": 7}'
    yield "nothing", b""
    yield "a NUL", b"\x00" * 100
    yield "NaN", b'{"traceEvents": [{"ph": "X", "ts": NaN, "dur": Infinity}]}'


@pytest.mark.parametrize(("name", "data"), corpus(), ids=lambda value: str(value)[:16])
def test_corpus(name: str, data: bytes, tmp_path: Path) -> None:
    began_s, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _read(tmp_path / "trace.json", data)
    assert time.process_time() - began_s < INPUT_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH_BYTES >> 10
