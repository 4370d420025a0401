"""`accelprof devices` as users run it, over the stub and without any accelerator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from stub_nvml.build import environment
from stub_nvml.cards import GIB, Card, card, write_script

from accelprof.profiler.accelerators.expect import Present, matching, unmet
from accelprof.profiler.accelerators.pci import pci_accelerators
from accelprof.profiler.errors import UserError
from accelprof.profiler.host_limits import count_cpus, host_limits

KEYS = {
    "index", "uuid", "name", "kind", "catalogue", "sold_as", "memory_bytes", "link", "readable",
    "unreadable",
}  # fmt: skip


def run(
    library: Path | None, folder: Path, cards: Sequence[Card], *words: str
) -> subprocess.CompletedProcess[str]:
    script = write_script(folder / "script", cards)
    variables = environment(library, script) if library else dict(os.environ)
    return subprocess.run(
        [sys.executable, "-m", "accelprof", "devices", *words],
        env={**variables, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_json_says_what_is_there_and_who_can_change_the_rest(
    stub_library: Path, tmp_path: Path
) -> None:
    cards = [card("g4"), card("t4", 1), card("h100", 2)]
    cards[1].rules.append("fail nvmlDeviceGetPowerUsage 4")
    result = run(stub_library, tmp_path, cards, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    body = json.loads(result.stdout)
    assert body["schema"] == "accelprof.devices/1"
    g4, t4, h100 = body["devices"]
    assert all(set(device) >= KEYS for device in body["devices"])
    assert g4["catalogue"] == "rtx-pro-6000-blackwell-server"
    assert any("Google G4" in sold for sold in g4["sold_as"])
    assert any("g4dn" in sold for sold in t4["sold_as"])
    assert h100["memory_bytes"] == 80 * GIB
    assert h100["link"]["generation_max"] == 5
    assert {"sm_share", "pcie_tx_bytes_per_s", "energy_j"} <= set(h100["readable"])
    assert h100["unreadable"] == []
    reasons = {item["metric"]: item for item in t4["unreadable"]}
    assert set(reasons) == {"power_w", "sm_share", "tensor_share", "dram_share", "occupancy_share"}
    assert "no permission" in reasons["power_w"]["reason"]
    assert "administrator" in reasons["power_w"]["who_can_change_it"]
    assert body["host"]["cpus_usable"] > 0


def test_the_text_can_be_pasted(stub_library: Path, tmp_path: Path) -> None:
    text = run(stub_library, tmp_path, [card("t4")]).stdout
    assert "Tesla T4 = NVIDIA T4 (t4), cuda:0" in text
    assert "AWS g4dn" in text
    assert "PCIe 3.0 x16 at most" in text
    assert "needs Hopper or newer (GPM)" in text
    assert "cores usable" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("kind", "expected", "outcome"),
    [
        ("a100-80", "a100-80", (0, "")),
        ("a100-80", "a100", (0, "")),
        ("a100-40", "a100-80", (1, "found NVIDIA A100-SXM4-40GB with 40 GiB")),
        ("g4", "g4", (0, "")),
        ("t4", "g4dn", (0, "")),
        ("t4", "g4", (1, "found Tesla T4")),
        ("t4", "no-such-card", (2, "no accelerator")),
    ],
)
def test_expect(
    stub_library: Path, tmp_path: Path, kind: str, expected: str, outcome: tuple[int, str]
) -> None:
    status, said = outcome
    result = run(stub_library, tmp_path, [card(kind)], "--expect", expected)
    assert result.returncode == status
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == (status != 0)


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="there is a driver here")
def test_a_machine_without_accelerators(tmp_path: Path) -> None:
    result = run(None, tmp_path, [], "--json", "--expect", "h100")
    assert result.returncode == 1
    body = json.loads(result.stdout)
    assert body["devices"] == []
    assert "libnvidia-ml.so.1 not found" in body["reason"]
    assert body["expect"]["met"] is False
    assert run(None, tmp_path, []).returncode == 0


def test_all_devices_must_be_the_expected_ones() -> None:
    sxm = Present("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb", 80 * GIB)
    pcie = Present("NVIDIA A100 80GB PCIe", "a100-pcie-80gb", 80 * GIB)
    assert unmet("a100-80", [sxm, pcie]) is None
    assert "PCIe" in (unmet("a100-sxm-80", [sxm, pcie]) or "")
    part = Present("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb", 20 * GIB)
    assert "20 GiB" in (unmet("a100-80", [part]) or "")
    sliced = Present("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb", 80 * GIB, mig=True)
    assert "MIG" in (unmet("a100-80", [sliced]) or "")
    with pytest.raises(UserError):
        matching("a9000")


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")


MEMINFO = {"proc/meminfo": "MemTotal:       16384 kB"}


def test_limits_of_cgroup_v2_are_the_least_on_the_way_up(tmp_path: Path) -> None:
    base = "sys/fs/cgroup"
    write(
        tmp_path,
        {
            **MEMINFO,
            "proc/self/cgroup": "0::/kubepods/pod1/box",
            "proc/self/mountinfo": "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup rw",
            f"{base}/kubepods/cpu.max": "max 100000",
            f"{base}/kubepods/pod1/cpu.max": "250000 100000",
            f"{base}/kubepods/pod1/box/cpu.max": "400000 100000",
            f"{base}/kubepods/pod1/box/cpuset.cpus.effective": "0-3,8",
            f"{base}/kubepods/pod1/memory.max": "4294967296",
            f"{base}/kubepods/pod1/box/memory.max": "max",
        },
    )
    found = host_limits(tmp_path, affinity=16)
    assert (found.cpus_cpuset, found.cgroup_cpu_quota, found.cpus_usable) == (5, 2.5, 2.5)
    assert found.cgroup_memory_limit_bytes == 4 * GIB
    assert found.memory_bytes == 16384 * 1024
    assert host_limits(tmp_path, affinity=2).cpus_usable == 2


def test_limits_of_cgroup_v1_in_a_container(tmp_path: Path) -> None:
    # The container sees its own group as the mount's root, but its path as the host's.
    mount = "/docker/abc {at} rw - cgroup cgroup rw,{name}"
    write(
        tmp_path,
        {
            **MEMINFO,
            "proc/self/cgroup": "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/docker/abc",
            "proc/self/mountinfo": "\n".join(
                f"1 2 0:3 {mount.format(at=f'/sys/fs/cgroup/{name}', name=name)}"
                for name in ("memory", "cpu,cpuacct")
            ),
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824",
        },
    )
    found = host_limits(tmp_path, affinity=8)
    assert (found.cgroup_cpu_quota, found.cgroup_memory_limit_bytes) == (1.5, GIB)
    write(
        tmp_path,
        {
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    found = host_limits(tmp_path, affinity=8)
    assert (found.cgroup_cpu_quota, found.cgroup_memory_limit_bytes) == (None, None)


def test_limits_without_proc(tmp_path: Path) -> None:
    found = host_limits(tmp_path, affinity=3)
    assert found.cpus_usable == 3
    assert found.memory_bytes is None


@pytest.mark.parametrize(
    ("text", "cores"), [("0-3", 4), ("0", 1), ("0-1,4-5,9", 5), ("", None), ("x", None)]
)
def test_a_list_of_cores(text: str, cores: int | None) -> None:
    assert count_cpus(text) == cores


def test_accelerators_on_the_bus_without_a_driver(tmp_path: Path) -> None:
    bus = "sys/bus/pci/devices"

    def device(address: str, vendor: str, id_: str, kind: str, subsystem: str = "0x0") -> None:
        names = {"vendor": vendor, "device": id_, "class": kind, "subsystem_device": subsystem}
        write(tmp_path, {f"{bus}/{address}/{name}": text for name, text in names.items()})

    device("0000:00:04.0", "0x1ae0", "0x0063", "0xff0000")
    device("0000:00:05.0", "0x1ae0", "0x0027", "0xff0000", "0x004f")
    device("0000:00:06.0", "0x10de", "0x2330", "0x030200")
    device("0000:00:07.0", "0x10de", "0x22a3", "0x068000")  # an NVSwitch
    device("0000:00:08.0", "0x8086", "0x1234", "0x030000")
    found = [(d.vendor, d.catalogue) for d in pci_accelerators(tmp_path)]
    assert found == [("Google", "tpu-v5e"), ("Google", "tpu-v3"), ("NVIDIA", None)]
