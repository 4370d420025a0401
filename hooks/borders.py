"""Keeps the hooks in the job's children although the job does not see our folder in PYTHONPATH.

A child with an inherited environment needs nothing: the C environment has the folder, and
`os.putenv` keeps it there when the job changes PYTHONPATH. An environment passed explicitly is a
copy of what the job saw, so the folder is put back where it leaves for the kernel. One without
ACCELPROF_SPOOL was scrubbed on purpose and stays so.
"""

import os
import sys

from . import postimport
from .patching import Hook

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
    def putenv(name: "Any", value: "Any", /) -> None:
        if os.fsencode(name) == NAME:
            value = _joined(os.fsencode(value))
        return original(name, value)

    return putenv


def _unsetenv(original: "Any") -> "Any":
    def unsetenv(name: "Any", /) -> None:
        if os.fsencode(name) == NAME:
            return os.putenv.__wrapped__(NAME, _folder)  # type: ignore[attr-defined]
        return original(name)

    return unsetenv


def _with_environment(original: "Any") -> "Any":
    """For os.execve(path, args, env) and os.posix_spawn[p](path, args, env, **options)."""

    def call(path: "Any", args: "Any", env: "Any", **options: "Any") -> "Any":
        try:
            env = _mapping(env)
        except Exception as error:
            hook.fail(error)
        return original(path, args, env, **options)

    return call


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
        except Exception as error:
            hook.fail(error)
        return original(*args)

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
