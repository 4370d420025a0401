"""The spool reader on live, overwritten, dead, restarted and hostile files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spool_files import CAPACITY, OFFSET, Ring

from accelprof.hooks import wire
from accelprof.profiler.ring import PATIENCE
from accelprof.profiler.spool import MAX_FACTS, SpoolReader


@pytest.fixture
def reader(tmp_path: Path):
    with_life = SpoolReader(tmp_path, alive=lambda pid: True)
    yield with_life
    with_life.close()


def test_reads_what_is_new(tmp_path, reader):
    ring = Ring(tmp_path)
    ring.fact(wire.FACT_PROCESS, pid=4242, rank=0)
    ring.write(wire.FORWARD, 100, 50, flags=3, ident=7, value=32)
    (news,) = reader.poll()
    assert (news.process, news.pid, news.first, news.lost, news.notes) == (
        ring.process, 4242, True, 0, [],
    )  # fmt: skip
    assert news.facts == [{"k": "process", "pid": 4242, "rank": 0}]
    assert news.spans == [(OFFSET + 100, OFFSET + 150, wire.FORWARD, 3, 7, 32)]
    assert reader.poll() == []
    ring.write(wire.BACKWARD, 200, 10)
    (news,) = reader.poll()
    assert not news.first
    assert [s[2] for s in news.spans] == [wire.BACKWARD]


def test_many_rounds_without_loss(tmp_path, reader):
    ring = Ring(tmp_path)
    starts = []
    for batch in range(40):
        for _ in range(100):
            ring.write(wire.OPTIMIZER, ring.sequence * 10, 5)
        for news in reader.poll():
            assert news.lost == 0, batch
            starts += [s[0] - OFFSET for s in news.spans]
    assert starts == [n * 10 for n in range(4000)]


@pytest.mark.parametrize("count", [CAPACITY + 1, CAPACITY * 2, CAPACITY * 5 + 17])
def test_counts_overwritten(tmp_path, reader, count):
    ring = Ring(tmp_path)
    for n in range(count):
        ring.write(wire.OPTIMIZER, n, 1)
    got, lost = 0, 0
    for news in reader.poll() + reader.poll():
        got, lost = got + len(news.spans), lost + news.lost
    assert got + lost == count
    assert CAPACITY - 256 < got <= CAPACITY


def test_orders_by_end(tmp_path, reader):
    ring = Ring(tmp_path)
    ring.write(wire.FSYNC, 500, 100, flags=wire.F_OTHER_THREAD)
    ring.write(wire.FORWARD, 100, 50)
    (news,) = reader.poll()
    assert [s[2] for s in news.spans] == [wire.FORWARD, wire.FSYNC]


def test_a_slow_thread_holds_up_a_record_then_it_is_given_up(tmp_path, reader):
    ring = Ring(tmp_path)
    ring.write(wire.FORWARD, 1, 1)
    ring.sequence += 1  # record 2 is begun and not finished
    ring.write(wire.BACKWARD, 3, 1)
    assert [s[2] for s in reader.poll()[0].spans] == [wire.FORWARD]
    late = wire.RECORD.pack(2, 1, wire.H2D, 2)
    ring.put(2, late)
    assert [s[2] for s in reader.poll()[0].spans] == [wire.H2D, wire.BACKWARD]
    ring.sequence += 1
    ring.write(wire.OPTIMIZER, 9, 1)
    for _ in range(PATIENCE):
        assert reader.poll() == []
    (news,) = reader.poll()
    assert (news.lost, [s[2] for s in news.spans]) == (1, [wire.OPTIMIZER])


def test_restart_goes_on_where_the_last_reader_was(tmp_path, reader):
    ring = Ring(tmp_path)
    ring.fact(wire.FACT_PROCESS, pid=4242)
    ring.write(wire.FORWARD, 1, 1)
    reader.poll()
    ring.write(wire.BACKWARD, 2, 1)
    again = SpoolReader(tmp_path, positions=reader.positions(), alive=lambda pid: True)
    (news,) = again.poll()
    assert [s[2] for s in news.spans] == [wire.BACKWARD]
    assert news.facts  # facts are told again
    again.close()


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda p: p.write_bytes(b"x" * 9000), "not a ring"),
        (lambda p: os.truncate(p, 5000), "cut short"),
        (lambda p: _header(p, version=99), "another version"),
        (lambda p: _header(p, capacity=1000), "1000 records"),
        (lambda p: _header(p, capacity=1 << 60), "records"),
        (lambda p: _header(p, offset=-1), "clock"),
    ],
)
def test_refuses_in_one_note(tmp_path, reader, spoil, word):
    ring = Ring(tmp_path)
    spoil(ring.path)
    notes = [note for _ in range(5) for news in reader.poll() for note in news.notes]
    assert len(notes) == 1
    assert word in notes[0]


def _header(path: Path, version=wire.VERSION, capacity=CAPACITY, offset=OFFSET) -> None:
    with open(path, "r+b") as file:
        file.write(wire.HEADER.pack(wire.MAGIC, version, capacity, 1, offset))


def test_ring_cut_while_it_is_read(tmp_path, reader):
    ring = Ring(tmp_path)
    ring.write(wire.FORWARD, 1, 1)
    assert len(reader.poll()[0].spans) == 1
    os.truncate(ring.path, wire.HEADER_SIZE)
    assert reader.poll() == []


def test_files_that_are_not_plain(tmp_path, reader):
    os.mkfifo(tmp_path / "12-ab.ring")
    (tmp_path / "13-ab.ring").symlink_to("/etc/passwd")
    (tmp_path / "14-ab.facts").mkdir()
    (tmp_path / "../x.facts").touch()
    notes = [n for _ in range(3) for news in reader.poll() for n in news.notes]
    assert len(notes) == 3


def test_facts_are_bounded_and_odd_lines_skipped(tmp_path, reader):
    ring = Ring(tmp_path)
    lines = ['{"k": "note"}', "", "nonsense", "[1]", '{"k": 3}', "[" * 100_000, '{"k": "torch"']
    ring.facts.write_text("\n".join(lines))
    (news,) = reader.poll()
    assert [f["k"] for f in news.facts] == ["note"]
    with open(ring.facts, "a") as file:
        file.write("}\n" + '{"k": "note"}\n' * (MAX_FACTS + 10))
    (news,) = reader.poll()
    assert news.facts[0]["k"] == "torch"
    assert len(news.facts) <= MAX_FACTS
    assert len(news.notes) == 1


def test_absurd_times_are_left_out(tmp_path, reader):
    ring = Ring(tmp_path)
    ring.write(wire.FORWARD, (1 << 64) - 1, 1)
    ring.write(wire.FORWARD, 1, (1 << 64) - 1)
    ring.write(wire.FORWARD, 1, 1)
    (news,) = reader.poll()
    assert (len(news.spans), news.lost) == (1, 2)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=8 * wire.RECORD_SIZE), st.integers(0, CAPACITY - 8))
def test_noise_never_raises_and_ends(tmp_path_factory, noise, slot):
    folder = tmp_path_factory.mktemp("noise")
    ring = Ring(folder)
    ring.write(wire.FORWARD, 1, 1)
    with open(ring.path, "r+b") as file:
        file.seek(wire.HEADER_SIZE + slot * wire.RECORD_SIZE)
        file.write(noise)
    reader = SpoolReader(folder, alive=lambda pid: True)
    for _ in range(6):
        for news in reader.poll():
            assert all(0 <= s[0] <= s[1] < 1 << 63 for s in news.spans)
    reader.close()


def test_end_of_a_process_is_told_once(tmp_path):
    alive = True
    reader = SpoolReader(tmp_path, alive=lambda pid: alive)
    ring = Ring(tmp_path)
    ring.write(wire.FORWARD, 1, 1)
    assert not reader.poll()[0].ended
    ring.fact(wire.FACT_EXIT)
    assert not reader.poll()[0].ended  # said so, lives still
    alive = False
    ring.write(wire.FORWARD, 2, 1)
    news = [n for _ in range(4) for n in reader.poll()]
    assert [len(n.spans) for n in news] == [1, 0]
    assert [n.ended for n in news] == [False, True]
    assert reader.poll() == []


def test_exec_ends_the_old_image(tmp_path, reader):
    old = Ring(tmp_path, start=1)
    old.write(wire.FORWARD, 1, 1)
    reader.poll()
    new = Ring(tmp_path, start=2)
    new.write(wire.FORWARD, 2, 1)
    news = {n.process: n for n in reader.poll()}
    assert news[old.process].ended
    assert not news[new.process].ended
    assert new.process in {p for p in reader.positions()}


def test_request_capture(tmp_path, reader):
    ring = Ring(tmp_path)
    assert not reader.request_capture(ring.process, 2)  # unknown yet
    reader.poll()
    assert reader.request_capture(ring.process, 2)
    assert reader.request_capture(ring.process, 3)
    assert not reader.request_capture(ring.process, 256)
    assert not reader.request_capture("../../etc", 1)
    word = wire.CONTROL.unpack_from(ring.path.read_bytes(), wire.CONTROL_OFFSET)[0]
    assert (word >> 8, word & 0xFF) == (2, 3)


def test_capture_file_stays_in_the_spool(tmp_path, reader):
    (tmp_path / "capture-1.json").touch()
    (tmp_path / "link.json").symlink_to("/etc/passwd")
    assert reader.capture_file("capture-1.json") == tmp_path / "capture-1.json"
    for name in ("../x", "/etc/passwd", "link.json", "none.json", "..", "", None, 3, "a\0b"):
        assert reader.capture_file(name) is None


WRITER = """
    import mmap, os, sys, time
    from accelprof.hooks import wire
    path, count = sys.argv[1], int(sys.argv[2])
    capacity = wire.RING_RECORDS
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, wire.HEADER_SIZE + capacity * wire.RECORD_SIZE)
    ring = mmap.mmap(fd, 0)
    wire.HEADER.pack_into(ring, 0, wire.MAGIC, wire.VERSION, capacity, os.getpid(),
                          time.time_ns() - time.perf_counter_ns())
    pack = wire.RECORD.pack_into
    for n in range(1, count + 1):
        pack(ring, wire.HEADER_SIZE + ((n & (capacity - 1)) << 5), n, n, n << 32 | 6, n)
    print("done", flush=True)
    time.sleep(60)
"""


def test_fast_writer_then_killed(tmp_path, reader):
    """No torn record, none twice, and every one is either read or counted, also after SIGKILL."""
    count = 300_000
    job = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path / "77-1.ring"), str(count)],
        stdout=subprocess.PIPE,
    )
    got, lost, last, done = 0, 0, 0, False
    os.set_blocking(job.stdout.fileno(), False)
    deadline = time.monotonic() + 30
    while got + lost < count and time.monotonic() < deadline:
        if not done and job.stdout.read():
            job.send_signal(signal.SIGKILL)
            done = True
        for news in reader.poll():
            lost += news.lost
            got += len(news.spans)
            for start, end, kind, _, _, value in news.spans:
                assert (end - start, kind) == (value, 6), "a torn record"
                assert value > last
                last = value
    job.kill()
    job.wait()
    assert (got + lost, last) == (count, count)
    assert lost < count
