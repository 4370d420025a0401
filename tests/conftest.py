"""Every test's subprocesses record into a temporary home, never into the user's library."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Beside other test processes everything takes its time, and that is no fault of the code
settings.register_profile(
    "beside-others", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("beside-others")

# pytest-xdist tells its workers the size of its own terminal.
PRIVATE = ("ACCELPROF_", "PYTHONPATH", "NO_COLOR", "STEPS", "EVERY", "COLUMNS", "LINES")


@pytest.fixture(scope="session", autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The environment without what would change a run, and with a home for this session."""
    kept = dict(os.environ)
    for name in kept:
        if name.startswith(PRIVATE):
            del os.environ[name]
    os.environ["ACCELPROF_HOME"] = str(tmp_path_factory.mktemp("home"))
    yield
    os.environ.clear()
    os.environ.update(kept)
