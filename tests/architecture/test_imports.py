"""What may import what where import-linter is too coarse, and what loads when."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOOK_FILES = sorted((ROOT / "hooks").rglob("*.py"))
# What a hook may find already imported, or import lazily where the job has it.
THE_JOBS_OWN = {"torch", "sitecustomize", "_accelprof_hooks"}


def imported(path: Path) -> set[str]:
    """Top names of absolute imports anywhere in a file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def loaded_by(statement: str) -> set[str]:
    """Modules in sys.modules of a fresh interpreter after a statement."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("path", HOOK_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_hooks_need_only_the_standard_library(path: Path) -> None:
    assert not imported(path) - set(sys.stdlib_module_names) - THE_JOBS_OWN


@pytest.mark.parametrize("path", HOOK_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_hooks_are_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 9))


def test_storage_needs_only_duckdb() -> None:
    """And msgspec, for the frames between the agent and live readers."""
    for path in (ROOT / "storage").rglob("*.py"):
        assert not imported(path) - set(sys.stdlib_module_names) - {"duckdb", "msgspec"}, path


def test_the_profiler_takes_only_the_wire_format_from_the_hooks() -> None:
    for path in (ROOT / "profiler").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level and node.module:
                parts = node.module.split(".")
                if parts[0] == "hooks":
                    found = parts[1:] or [alias.name for alias in node.names]
                    assert found[0] == "wire", f"{path}: {ast.unparse(node)}"


def test_the_public_api_is_light() -> None:
    extra = loaded_by("import accelprof") - loaded_by("pass")
    ours = {name for name in extra if name.partition(".")[0] == "accelprof"}
    assert extra - ours <= set(sys.stdlib_module_names) | {
        name for name in extra if name.partition(".")[0] in sys.stdlib_module_names
    }
    assert not extra & {"duckdb", "typer", "asyncio", "subprocess", "typing", "torch"}


def test_the_launcher_is_light() -> None:
    """The job waits for these imports, and they stay in memory beside it."""
    heavy = {"duckdb", "psutil", "textual", "rich", "typer", "msgspec", "pynvml", "torch", "numpy"}
    assert not loaded_by("from accelprof.profiler import launch, supervise") & heavy
    assert not loaded_by("from accelprof.profiler import commands") & heavy


@pytest.mark.parametrize("path", sorted((ROOT / "samples").glob("*.py")), ids=lambda p: p.name)
def test_samples_need_only_torch(path: Path) -> None:
    assert imported(path) <= set(sys.stdlib_module_names) | {"torch"}
