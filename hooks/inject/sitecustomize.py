"""Runs at the start of every Python of the job: hides itself, starts the hooks, hands over.

It has to parse on any Python and stay silent on all of them; the hooks themselves need 3.9. Short,
as it is compiled anew wherever its bytecode cannot be kept.
"""

import os
import sys


def _start(folder, spool):
    """Loads the hooks by path, as `_accelprof_hooks`: never under a name that a job could use."""
    from _frozen_importlib_external import SourceFileLoader, cache_from_source

    hooks = os.path.dirname(folder)
    writable = os.access(hooks, os.W_OK)

    def code(name, path):
        """The code of a file of ours; the spool keeps the bytecode that its folder cannot."""
        saved = sys.dont_write_bytecode, sys.pycache_prefix
        sys.dont_write_bytecode = False  # the job's wish for its own files
        if not writable and not os.path.exists(cache_from_source(path)):
            sys.pycache_prefix = spool + "/pycache"
        try:
            return SourceFileLoader(name, path).get_code(name)
        finally:
            sys.dont_write_bytecode, sys.pycache_prefix = saved

    try:
        if writable and not os.path.exists(cache_from_source(__file__)):
            code("sitecustomize", __file__)
        scope = {"__name__": "_accelprof_hooks.entry"}
        exec(code("_accelprof_hooks.entry", hooks + "/entry.py"), scope)
        scope["start"](hooks, folder, spool, code)
    except Exception:  # the job comes first; the profiler sees a process without hooks
        for name in [name for name in sys.modules if name.startswith("_accelprof_hooks")]:
            del sys.modules[name]


def _hide(folder):
    """Takes our folder out of what the job sees. The C environment keeps it, for the children."""
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)
    view, name = getattr(os.environ, "_data", {}), b"PYTHONPATH"
    if name in view:
        own = [entry for entry in view[name].split(b":") if entry != os.fsencode(folder)]
        if own or view.get(b"ACCELPROF_PYTHONPATH") == b"":
            view[name] = b":".join(own)
        else:
            del view[name]


_folder, _spool = os.path.dirname(__file__), os.environ.get("ACCELPROF_SPOOL")
_hide(_folder)
if _spool and os.environ.get("ACCELPROF_DISABLE") != "1" and sys.version_info >= (3, 9):
    _start(_folder, _spool)
# The job's own one, if any. When there is none, this raises the very ImportError that site.py
# expects and swallows; whatever the job's own one raises passes as it would without us.
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402, F401
