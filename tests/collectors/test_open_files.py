"""Where the files lie that a job reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from accelprof.profiler.collectors import Target
from accelprof.profiler.collectors.open_files import Mount, OpenFileCollector, holding, mounts

MOUNTS = r"""
22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/root rw
40 22 0:41 / /data rw,relatime shared:9 master:2 - nfs4 filer:/export/data rw,vers=4.2
41 40 0:42 / /data/with\040blank ro - fuse.gcsfuse bucket ro
nonsense
"""


def told(rows: list[Any]) -> list[dict[str, Any]]:
    assert all(table == "event" and row[1] == "reads-from" for table, row in rows)
    return [json.loads(row[4]) for _, row in rows]


def process(root: Path, pid: int, files: dict[int, tuple[str, str]]) -> None:
    """A /proc/PID whose descriptors lead to these files, with these octal flags."""
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "fdinfo").mkdir()
    (folder / "mountinfo").write_text(MOUNTS)
    for number, (path, flags) in files.items():
        os.symlink(path, folder / "fd" / str(number))  # noqa: PTH211 - it leads nowhere
        (folder / "fdinfo" / str(number)).write_text(f"pos:\t0\nflags:\t{flags}\nmnt_id:\t40\n")


def test_the_longest_mount_holds_a_file() -> None:
    known = mounts(MOUNTS)
    assert [m.point for m in known] == ["/", "/data", "/data/with blank"]
    assert holding("/data/with blank/x", known) == Mount(
        "/data/with blank", "fuse.gcsfuse", "bucket")  # fmt: skip
    assert holding("/database/x", known) == known[0]
    assert holding("/x", []) is None


def test_files_that_workers_read_are_told_by_mount_and_once(tmp_path: Path) -> None:
    process(tmp_path, 7, {
        0: ("/data/stdin.txt", "0100000"), 3: ("/data/train/a.jpg", "0100000"),
        4: ("/data/train/b.jpg", "0100000"), 5: ("/home/log.txt", "0102001"),
        6: ("socket:[12]", "02"), 8: ("/usr/lib/python3.11/json/x.py", "0100000"),
        9: ("/data/with blank/shard.tar", "0100000"),
    })  # fmt: skip
    process(tmp_path, 8, {3: ("/scratch/other", "0100000")})
    workers = [Target(8), Target(7, worker=0)]
    source = OpenFileCollector(lambda: workers, root=tmp_path)
    found = {d["mount"]: d for d in told(source.sample(1))}
    assert found.keys() == {"/data", "/data/with blank"}  # the log is written, 8 is no worker
    assert found["/data"]["type"] == "nfs4" and found["/data"]["remote"] is True
    assert found["/data"]["source"] == "filer:/export/data"
    assert found["/data"]["file"].startswith("/data/train/")
    assert source.sample(2) == []


def test_a_process_that_is_gone_or_of_another_user_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert OpenFileCollector(lambda: [Target(7)], root=tmp_path).sample(1) == []
    assert OpenFileCollector(tuple, root=tmp_path).sample(1) == []


def test_a_real_process(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"x")
    code = "import sys; f = open(sys.argv[1], 'rb'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "data.bin"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as job:  # fmt: skip
        assert job.stdout and job.stdout.readline() == b"open\n"
        (found,) = told(OpenFileCollector(lambda: [Target(job.pid)]).sample(1))
        job.communicate(timeout=40)
    assert found["file"] == str(tmp_path / "data.bin")
    assert str(tmp_path).startswith(found["mount"]) and found["type"]
