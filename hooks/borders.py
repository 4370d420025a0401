"""Keeps the hooks in the job's children although the job does not see our folder in PYTHONPATH.

A child with an inherited environment needs nothing: the C environment has the folder, and
`os.putenv` keeps it there when the job changes PYTHONPATH. An environment passed explicitly is a
copy of what the job saw, so the folder is put back where it leaves for the kernel. One without
ACCELPROF_SPOOL was scrubbed on purpose and stays so.
"""

import os
import sys

from . import postimport
from .patching import Hook, undress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME, SPOOL = b"PYTHONPATH", b"ACCELPROF_SPOOL"

hook = Hook("borders")
_folder = b""


def install(folder: str) -> None:
    global _folder
    _folder = os.fsencode(folder)
    for name in ("execve", "posix_spawn", "posix_spawnp"):
        hook.wrap(os, name, _with_environment)
    os.supports_fd.add(os.execve)
    hook.wrap(os, "putenv", _putenv)
    hook.wrap(os, "unsetenv", _unsetenv)
    if "_posixsubprocess" in sys.builtin_module_names:
        import _posixsubprocess

        _after_posixsubprocess(_posixsubprocess)
    else:
        postimport.finder.watch("_posixsubprocess", _after_posixsubprocess)


def _after_posixsubprocess(module: "Any") -> None:
    hook.wrap(module, "fork_exec", _fork_exec)


def _joined(own: bytes) -> bytes:
    return _folder + b":" + own if own else _folder


def _putenv(original: "Any") -> "Any":
    def putenv(*args: "Any") -> "Any":
        try:
            if os.fsencode(args[0]) == NAME:
                args = (NAME, _joined(os.fsencode(args[1])), *args[2:])
        except Exception:
            pass  # wrong arguments: the original says so
        return _called(original, args)

    return putenv


def _unsetenv(original: "Any") -> "Any":
    def unsetenv(*args: "Any") -> "Any":
        if args == (NAME,) or args == (NAME.decode(),):
            return os.putenv.__wrapped__(NAME, _folder)  # type: ignore[attr-defined]
        return _called(original, args)

    return unsetenv


def _with_environment(original: "Any") -> "Any":
    """For os.execve(path, argv, env) and os.posix_spawn[p](path, argv, env, **options)."""

    def call(*args: "Any", **options: "Any") -> "Any":
        try:
            if len(args) > 2:
                args = (*args[:2], _mapping(args[2]), *args[3:])
            elif "env" in options:
                options["env"] = _mapping(options["env"])
        except Exception:
            pass  # wrong arguments: the original says so
        return _called(original, args, options)

    return call


def _called(original: "Any", args: "Any", options: "Any" = {}) -> "Any":
    try:
        return original(*args, **options)
    except BaseException as error:
        undress(error)
        raise


def _mapping(env: "Any") -> "Any":
    """A copy of `env` with our folder, or `env` itself where there is nothing to do."""
    given = {os.fsencode(key): value for key, value in env.items()}
    own = os.fsencode(given.get(NAME, b""))
    if SPOOL not in given or _folder in own.split(b":"):
        return env
    return {**given, NAME: _joined(own)}


def _fork_exec(original: "Any") -> "Any":
    def fork_exec(*args: "Any") -> "Any":
        try:
            args = (*args[:5], _listed(args[5]), *args[6:])
        except Exception:
            pass
        return _called(original, args)

    return fork_exec


def _listed(env: "Any") -> "Any":
    """The same for the list of b"NAME=value" that subprocess passes, or None."""
    if env is None or not any(entry.startswith(SPOOL + b"=") for entry in env):
        return env
    given = [entry for entry in env if entry.startswith(NAME + b"=")]
    own = given[-1].partition(b"=")[2] if given else b""
    if _folder in own.split(b":"):
        return env
    return [entry for entry in env if entry not in given] + [NAME + b"=" + _joined(own)]
