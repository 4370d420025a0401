"""The user's own prices, as typed and as they then count."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.profiler.accelerators.prices import prices
from accelprof.profiler.errors import UserError


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("ACCELPROF_HOME", str(tmp_path))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "accelprof", "prices", *words], env=os.environ.copy(),
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return run


def test_an_own_price_counts_and_goes_again(typed, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done = typed("set", "h100", "19.92", "--count", "8", "--source", 'a "contract"')
    assert done.returncode == 0, done.stderr
    assert oct((tmp_path / "prices.toml").stat().st_mode)[-3:] == "600"
    listed = json.loads(typed("--only", "h100", "--json").stdout)
    (offer,) = listed["offers"]
    assert offer["usd_per_device_hour"] == pytest.approx(2.49)
    assert (offer["source"], offer["own"]) == ('a "contract"', True)
    assert offer["as_of"] is not None
    assert typed("energy", "0.28", "--carbon", "0.36").returncode == 0
    assert prices().energy.kg_co2_per_kwh == 0.36
    assert "list price" in typed("rm", "h100").stdout
    assert prices().energy.usd_per_kwh == 0.28


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "h1000", "3"), "nearest is h100"),
        (("set", "h100", "99999"), "costs 0 to"),
        (("set", "h100", "2", "--date", "2126-01-01"), "future"),
        (("rm", "l4"), "no price of your own"),
    ],
)
def test_wrong_prices_are_one_line(typed, words: tuple[str, ...], said: str) -> None:  # type: ignore[no-untyped-def]
    done = typed(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "offer = 3",
        '[[offer]]\nprovider="a"\nsku="b"\naccelerator="warp9"\ncount=1\nsource="s"\n',
        '[[offer]]\nprovider="a"\nsku="b"\naccelerator="l4"\ncount=0\nsource="s"\non_demand=1.0\n',
        "[energy]\nusd_per_kwh = -3.0\n",
        "\x00",
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(UserError, match="cannot use the prices"):
        prices(file)
