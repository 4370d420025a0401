"""AMD's own Python bindings over a stub of their library: keys, units and enumerations are real.

The bindings are a small package of pure Python; it is put into pytest's cache once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gpus import GIB, tree

from accelprof.profiler.collectors.nvml_fields import COLUMNS

VERSION = "7.0.2"
HERE = Path(__file__).parent
SAMPLE = """
import json, sys
from pathlib import Path
from accelprof.profiler.collectors.amd import AmdCollector
collector = AmdCollector(root=Path(sys.argv[1]), deadline_s=5.0)
gaps = [list(gap) for gap in collector.probe()]
rows = [row for second in (1, 2) for row in collector.sample(second * 10**9)]
collector.close()
print(json.dumps([gaps, rows]))
"""


@pytest.fixture(scope="module")
def bindings(request: pytest.FixtureRequest) -> Path:
    """A folder with the package amdsmi."""
    folder = Path(request.config.cache.mkdir(f"amdsmi-{VERSION}"))
    if not (folder / "amdsmi/amdsmi_wrapper.py").exists():
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder]
        try:
            done = subprocess.run(
                [*install, f"amdsmi=={VERSION}"], capture_output=True, text=True, timeout=60,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pytest.skip(f"amdsmi {VERSION} could not be installed within 60 s")
        if done.returncode:
            pytest.skip(f"amdsmi {VERSION} could not be installed: {done.stderr[-300:]}")
    return folder


@pytest.fixture
def library(bindings: Path, tmp_path: Path) -> Path:
    """ROCM_PATH of a stub library with every symbol that the bindings look for."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    wrapper = (bindings / "amdsmi/amdsmi_wrapper.py").read_text()
    wanted = set(re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", wrapper))
    ours = set(re.findall(r"^int (amdsmi_\w+)\(", (HERE / "smi.c").read_text(), re.M))
    assert ours <= wanted
    rest = tmp_path / "rest.c"
    rest.write_text("".join(f"int {name}(void) {{ return 2; }}\n" for name in wanted - ours))
    rocm = tmp_path / "rocm"
    (rocm / "lib").mkdir(parents=True)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", rocm / "lib/libamd_smi.so"]
    subprocess.run([*command, HERE / "smi.c", rest], check=True, timeout=60)
    return rocm


def test_the_real_bindings(tmp_path, bindings, library):
    environment = os.environ | {"ROCM_PATH": str(library), "PYTHONPATH": str(bindings)}
    environment.pop("ROCM_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", SAMPLE, tree(tmp_path / "root", {}, {})], env=environment,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _, rows = json.loads(done.stdout)
    one, two = (row for table, row in rows if table == "device")
    assert [row["uuid"] for row in (one, two)] == ["uuid-one", "uuid-two"]
    assert {row["catalogue"] for row in (one, two)} == {"mi300x"}
    details = json.loads(one["details"])
    assert (details["source"], details["pci"]) == ("amdsmi", "0000:0c:00.0")
    assert (details["energy"], json.loads(two["details"])["energy"]) == ("counter", "integrated")
    names = ("t_ns", "device", *COLUMNS)
    samples = [dict(zip(names, row, strict=True)) for t, row in rows if t == "device_sample"]
    first, second = samples[:2]
    assert (first["busy_share"], first["memory_busy_share"]) == (0.98, 0.37)
    assert first["memory_used_bytes"] == 120 * GIB
    assert first["memory_total_bytes"] == 196592 * 2**20
    assert (first["power_w"], first["power_limit_w"]) == (612.0, 750.0)
    assert first["energy_j"] == pytest.approx(153_000)
    assert (first["temperature_c"], second["temperature_c"]) == (71.0, 48.0)
    assert (first["sm_clock_hz"], first["memory_clock_hz"]) == (2_100_000_000, 1_300_000_000)
    assert (first["pcie_generation"], first["pcie_width"]) == (5, 16)
    missing = {row[2] for table, row in rows if table == "gap"}
    assert {row[3] for table, row in rows if table == "gap"} == {1}
    assert missing == {"busy_share", "memory_busy_share", "power_w", "energy_j"}
