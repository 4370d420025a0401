"""The stub library, built once; scenarios are played over it (see stub_nvml/play.py)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from stub_nvml.build import build
from stub_nvml.play import Played, Scenario, play_all

Play = Callable[[dict[str, Scenario]], dict[str, Played]]


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def build_without(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Iterable[str]], Path]:
    """The stub without some functions, as an older driver."""
    return lambda hidden: build(tmp_path_factory.mktemp("nvml-old"), hidden)


@pytest.fixture
def play(stub_library: Path, tmp_path: Path) -> Play:
    return lambda scenarios: play_all(stub_library, tmp_path / "play", scenarios)
