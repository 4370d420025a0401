"""`accelprof run`: makes the run's folder, starts the job as it would by itself, then the agent.

The job comes first and nothing heavy is imported here (no duckdb, psutil, rich, textual): what the
profiler needs, the agent loads in parallel. Whatever fails on our side costs one warning, never the
job. What happens while the job lives is in supervise.py.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..hooks import wire
from ..storage import library
from .environment import mask_command

RUN_SETTINGS = library.SETTINGS
SPOOL_POSITIONS = "spool.json"  # how far the agent stored the spool; likewise
SPACE_NEEDED_BYTES = 16 << 20  # an empty run file, its log and the rings of a few processes
NOT_FOUND, NOT_EXECUTABLE = 127, 126
# Fixed descriptors of the agent.
CONTROL_FD, WITNESS_FD, TERMINAL_FD = 3, 4, 5
_INJECT = Path(__file__).resolve().parent.parent / "hooks" / "inject"
# Signals that a program gets for its own faults; blocking them would only hide a crash.
_OWN_FAULTS = {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
    signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS,
}  # fmt: skip


@dataclass
class RunOptions:
    """The options of `accelprof run`; the defaults are those of the command line."""

    command: list[str]
    name: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    note: str | None = None
    out: str | None = None
    quiet: bool = False
    hooks: bool = True
    rate_hz: float | None = None
    capture: str = "auto"
    stacks: str = "auto"
    samples_per_step: int | None = None
    max_disk_bytes: int | None = None


def warn(message: str) -> None:
    """One line on stderr; a closed stderr is no reason to fail."""
    with contextlib.suppress(OSError):
        os.write(2, f"accelprof: {message}\n".encode("utf-8", "replace"))


def launch(options: RunOptions, told: Callable[[Path | None], object] = lambda _: None) -> int:
    """Runs the job to its end; its exit status as a shell gives it. `told` gets the folder."""
    from .supervise import Supervisor, just_wait

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _OWN_FAULTS)
    children_ignored = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    if children_ignored:  # a parent's setting, inherited; the kernel would discard exit statuses
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    folder = make_folder(options)
    told(folder)
    environ = job_environment(os.environ, folder, options)
    started_ns = time.time_ns()
    try:
        job = spawn_job(options.command, environ, mask, children_ignored=children_ignored)
    except OSError as error:
        if folder:
            discard(folder)
        return explain_failure(options.command[0], error)
    _let_go_of_pipes()
    try:
        return Supervisor(job, AgentStarter(folder, job, started_ns) if folder else None).run()
    except Exception as error:  # a bug of ours: the job still has its end and its status
        warn(f"internal error while waiting ({log_bug(error)}); the job goes on")
        return just_wait(job)


def log_bug(error: BaseException) -> str:
    """Writes a bug's traceback into the log of the library; where it is, or what it was."""
    import traceback

    path = library.home() / library.LOG
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
            file.write(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()))
            file.writelines(traceback.format_exception(error))
    except OSError:
        return f"{type(error).__name__}: {error}"
    return f"{type(error).__name__}: {error}; details in {path}"


# -- the folder --------------------------------------------------------------------------------


def make_folder(options: RunOptions) -> Path | None:
    """The run's folder with the agent's settings in it; a temporary one when home cannot take it.

    None with a warning when nothing can be written anywhere.
    """
    name = options.name or name_from(mask_command(options.command))
    run_id = library.new_run_id(name)
    parent = Path(options.out) if options.out else library.home() / "runs"
    try:
        return _make(parent.absolute() / run_id, options, name)
    except OSError as error:
        reason = f"cannot record in {parent}: {error.strerror or error}"
    try:
        import tempfile

        temporary = Path(tempfile.mkdtemp(prefix="accelprof-"))
        folder = _make(temporary / run_id, options, name)
    except OSError:
        warn(f"{reason}; the job runs unrecorded")
        return None
    warn(f"{reason}; recording in {folder}")
    return folder


def _make(folder: Path, options: RunOptions, name: str) -> Path:
    # Parents as the user's umask says, what is ours private from its first moment.
    library.require_utf8(folder)
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(mode=0o700)
    try:
        space = os.statvfs(folder)
        if space.f_bavail * space.f_frsize < SPACE_NEEDED_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        (folder / library.SPOOL).mkdir(mode=0o700)
        (folder / library.SPOOL / wire.TRACER).write_text(str(os.getpid()))
        settings = asdict(options) | {
            "id": folder.name,
            "name": name,
            "command": mask_command(options.command),
            "cwd": _cwd(),
            "launcher": os.getpid(),
        }
        descriptor = os.open(folder / RUN_SETTINGS, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(settings, file)
    except OSError:
        discard(folder)
        raise
    return folder


def _cwd() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # deleted under us; the job may not mind
        return ""


def discard(folder: Path) -> None:
    """Takes away the folder of a run that did not come about."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def name_from(command: Sequence[str]) -> str:
    """A run's name from its command: the script's, the module's, else the program's."""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word.endswith(".py"):
            return Path(word).stem
        if word == "-m" and following:
            return following
    return Path(command[0]).name


# -- the job -----------------------------------------------------------------------------------


def job_environment(
    environ: Mapping[str, str], folder: Path | None, options: RunOptions
) -> dict[str, str]:
    """The job's environment: its own, and what lets the hooks in."""
    job = {key: value for key, value in environ.items() if key != wire.ENV_PYTHONPATH}
    own = _own_pythonpath(environ)
    job.pop("PYTHONPATH", None)
    if own is not None:
        job["PYTHONPATH"] = own
    job.pop(wire.ENV_SPOOL, None)
    job.pop(wire.ENV_CAPTURE, None)
    if folder is None or not options.hooks:
        return job
    job[wire.ENV_SPOOL] = str(folder / library.SPOOL)
    job[wire.ENV_CAPTURE] = options.capture
    # No trailing colon: an empty entry would put the working directory on sys.path.
    job["PYTHONPATH"] = f"{_INJECT}:{own}" if own else str(_INJECT)
    if own is not None:
        job[wire.ENV_PYTHONPATH] = own
    return job


def _own_pythonpath(environ: Mapping[str, str]) -> str | None:
    """PYTHONPATH as the user set it, also when this is itself a job of an outer `accelprof run`."""
    value = environ.get("PYTHONPATH")
    if value is None or value.split(":")[0] != str(_INJECT):
        return value
    return environ.get(wire.ENV_PYTHONPATH)


def spawn_job(
    command: list[str],
    environ: Mapping[str, str],
    mask: set[int | signal.Signals],
    *,
    children_ignored: bool = False,
) -> int:
    """Starts the command as execvp in a shell would; its pid. Raises OSError of the exec."""
    # Python ignores these two for itself; a program expects their default.
    default = [signal.SIGPIPE, signal.SIGXFSZ]
    if not command[0]:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if children_ignored:
        return _fork_job(command, environ, mask, default)
    try:
        return os.posix_spawnp(command[0], command, environ, setsigmask=mask, setsigdef=default)
    except OSError as error:
        script = _find(command[0]) if error.errno == errno.ENOEXEC else None
        if script is None or not _is_text(script):
            raise
        # A script without a #! line: a shell runs it itself.
        words = ["/bin/sh", script, *command[1:]]
        return os.posix_spawn("/bin/sh", words, environ, setsigmask=mask, setsigdef=default)


def _find(program: str) -> str | None:
    import shutil

    return shutil.which(program)


def _fork_job(
    command: list[str],
    environ: Mapping[str, str],
    mask: set[int | signal.Signals],
    default: list[signal.Signals],
) -> int:
    """For a job that is to ignore SIGCHLD, which we must not: posix_spawn cannot set that."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            for signo in default:
                signal.signal(signo, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(command[0], command, dict(environ))
        except OSError as error:
            os.write(write, str(error.errno).encode())
        finally:
            os._exit(NOT_FOUND)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:  # closed by the exec
        failure = pipe.read()
    if failure:
        os.waitpid(pid, 0)
        raise OSError(int(failure), os.strerror(int(failure)))
    return pid


def _is_text(path: str) -> bool:
    """As shells judge: no NUL in the first line."""
    with open(path, "rb") as file:
        return b"\0" not in file.read(512).split(b"\n")[0]


def explain_failure(program: str, error: OSError) -> int:
    """One line why the command could not be started, and the status a shell would give."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if "/" not in program:
            warn(f"{program}: command not found")
        elif Path(program).exists():
            warn(f"{program}: the interpreter in its first line was not found")
        else:
            warn(f"{program}: {os.strerror(error.errno)}")
        return NOT_FOUND
    reason = "Is a directory" if Path(program).is_dir() else error.strerror
    warn(f"{program}: {reason}")
    return NOT_EXECUTABLE


def _let_go_of_pipes() -> None:
    """The launcher keeps only stderr: a pipe's other end sees the job close its end, not us."""
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        if null > 2:
            os.close(null)


# -- the agent ---------------------------------------------------------------------------------


@dataclass
class AgentProcess:
    """A started agent. `control` is written, `witness` read by the launcher."""

    pid: int
    control: int
    witness: int

    def tell(self, line: str) -> None:
        """Sends one line; an agent that is gone or stuck does not matter here."""
        with contextlib.suppress(OSError):
            os.write(self.control, line.encode() + b"\n")

    def close(self) -> None:
        """Closes the pipes."""
        for descriptor in (self.control, self.witness):
            with contextlib.suppress(OSError):
                os.close(descriptor)


@dataclass
class AgentStarter:
    """Starts the agent of a run, and once more when it died."""

    folder: Path
    job: int
    started_ns: int

    def start(self, *, again: bool = False) -> AgentProcess | None:
        """The agent in our process group with all signals blocked; None with a warning."""
        words = [sys.executable, "-P", "-m", "accelprof.profiler.agent", str(self.folder)]
        words += [str(self.job), str(self.started_ns), *(["--again"] if again else [])]
        ends: list[int] = []
        try:
            ends = [*os.pipe(), *os.pipe()]
            log = self._log()
            ends.append(log)
            high = [_moved_up(end) for end in ends]
            ends += high
            control_read, control_write, witness_read, witness_write, log = high
            actions = [
                (os.POSIX_SPAWN_DUP2, 2, TERMINAL_FD),
                (os.POSIX_SPAWN_DUP2, log, 2),
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, control_read, CONTROL_FD),
                (os.POSIX_SPAWN_DUP2, witness_write, WITNESS_FD),
            ]
            pid = os.posix_spawn(
                sys.executable, words, agent_environment(), file_actions=actions,
                setsigmask=signal.valid_signals() - _OWN_FAULTS,
            )  # fmt: skip
        except OSError as error:
            warn(f"the recorder could not be started ({error.strerror}); the job goes on")
            _close(ends)
            return None
        _close([end for end in ends if end not in (control_write, witness_read)])
        os.set_blocking(control_write, False)
        os.set_blocking(witness_read, False)
        return AgentProcess(pid, control_write, witness_read)

    def _log(self) -> int:
        """The run's log, which is the agent's stderr: no traceback reaches the terminal."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            return os.open(self.folder / library.LOG, flags, 0o600)
        except OSError:
            return os.open(os.devnull, os.O_WRONLY)


def _moved_up(descriptor: int) -> int:
    """A copy above the agent's fixed descriptors, so that setting one does not close another."""
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def agent_environment() -> dict[str, str]:
    """Our own, without what would hook the agent when this runs inside another `accelprof run`."""
    environ = dict(os.environ)
    own = _own_pythonpath(environ)
    for key in ("PYTHONPATH", wire.ENV_PYTHONPATH, wire.ENV_SPOOL, wire.ENV_CAPTURE):
        environ.pop(key, None)
    if own is not None:
        environ["PYTHONPATH"] = own
    return environ | {wire.ENV_DISABLE: "1"}
