"""The wheel: what is in it, and that it works where nothing else is installed beside it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command to its end, its output on failure."""
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources: building in place would leave its traces in the checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    target = tmp_path_factory.mktemp("source")
    fresh = ("--cached", "--others", "--exclude-standard")
    listed = run("git", "ls-files", "-z", *fresh, cwd=ROOT).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())
    return target


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ".", cwd=source)
    return next(folder.glob("accelprof-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bin/ of an environment with the wheel; its dependencies are borrowed from ours."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=folder)
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    own = next((folder / "lib").glob("python3.*/site-packages"))
    (own / "borrowed.pth").write_text(borrowed + "\n")
    return folder / "bin"


def test_every_package_is_in_the_wheel(source: Path, wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for top in ("hooks", "storage", "profiler", "tui"):
        for path in (source / top).rglob("*"):
            if path.suffix in (".py", ".sql", ".tcss", ".toml"):
                assert f"accelprof/{path.relative_to(source)}" in names
    assert {"accelprof/py.typed", "accelprof/__init__.py", "accelprof/__main__.py"} <= names
    assert "accelprof/hooks/inject/sitecustomize.py" in names


def test_nothing_else_is_in_the_wheel(wheel: Path) -> None:
    for name in zipfile.ZipFile(wheel).namelist():
        top, _, rest = name.partition("/")
        assert top == "accelprof" or top.endswith(".dist-info"), name
        assert not rest.startswith(("tests/", "samples/", "benchmarks/", "docs/")), name


def test_the_source_archive_holds_what_the_wheel_needs_and_no_more(
    source: Path, tmp_path: Path
) -> None:
    build = "from setuptools.build_meta import build_sdist; import sys; build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, tmp_path, cwd=source)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    tops = {name.partition("/")[0] for name in names if name}
    allowed = {"hooks", "profiler", "storage", "tui", "accelprof.egg-info", "setup.cfg", "PKG-INFO"}
    files = {"pyproject.toml", "README.md", "LICENSE", "py.typed", "__init__.py", "__main__.py"}
    assert files <= tops <= files | allowed
    # The image is built from the same files.
    kept = (ROOT / ".dockerignore").read_text().split("!")[1:]
    assert {line.split()[0] for line in kept} == files | {"hooks", "profiler", "storage", "tui"}


def test_the_package_does_not_need_torch(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
    needs = [
        line for line in archive.read(metadata).decode().splitlines()
        if line.startswith("Requires-Dist:") and "extra ==" not in line
    ]  # fmt: skip
    assert needs and not any("torch" in line for line in needs)


def test_the_console_script_and_the_module_are_the_same(installed: Path) -> None:
    script, module = (installed / "accelprof",), (installed / "python", "-m", "accelprof")
    version = run(*script, "--version", cwd=installed).stdout
    assert version.startswith("accelprof ")
    assert run(*module, "--version", cwd=installed).stdout == version
    assert "report" in run(*script, "--help", cwd=installed).stdout


def test_an_installed_wheel_records_a_run(installed: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("import accelprof, sys\naccelprof.step()\nprint(accelprof.__file__)\n")
    accelprof, folder = installed / "accelprof", tmp_path / "recorded"
    run(accelprof, "run", "--out", folder, sys.executable, job, cwd=tmp_path)
    report = run(accelprof, "report", folder, "--json", cwd=tmp_path)
    assert '"accelprof.report/1"' in report.stdout
