"""Runs at the start of every Python of the job: hides itself, starts the hooks, hands over.

It has to parse on any Python and stay silent on all of them; the hooks themselves need 3.9.
"""

import os
import sys


def _hide(folder):
    """Takes our folder out of what the job sees. The C environment keeps it, for the children."""
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)
    view, name, mine = getattr(os.environ, "_data", {}), b"PYTHONPATH", os.fsencode(folder)
    if name not in view:
        return
    own = [entry for entry in view[name].split(b":") if entry != mine]
    if own or view.get(b"ACCELPROF_PYTHONPATH") == b"":
        view[name] = b":".join(own)
    else:
        del view[name]


def _start(folder):
    """Loads the hooks by path, as `_accelprof_hooks`: never under a name that a job could use."""
    spool = os.environ.get("ACCELPROF_SPOOL")
    if not spool or os.environ.get("ACCELPROF_DISABLE") == "1":
        return
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import SourceFileLoader, spec_from_file_location

    hooks = os.path.dirname(folder)
    write_here = not sys.dont_write_bytecode and os.access(hooks, os.W_OK)

    class Loader(SourceFileLoader):
        """Keeps bytecode in the spool where it cannot be kept beside the source."""

        codes = []  # of the modules loaded so far; torch.compile has to skip them

        def get_code(self, fullname):
            saved, sys.dont_write_bytecode = sys.dont_write_bytecode, False
            try:
                code = SourceFileLoader.get_code(self, fullname)
            finally:
                sys.dont_write_bytecode = saved
            self.codes.append(code)
            return code

        def get_data(self, path):
            try:
                return SourceFileLoader.get_data(self, path)
            except OSError:
                if not path.endswith(".pyc"):
                    raise
                return SourceFileLoader.get_data(self, self.cached(path))

        def set_data(self, path, data, _mode=0o600):
            SourceFileLoader.set_data(self, path if write_here else self.cached(path), data)

        def cached(self, path):
            return os.path.join(spool, "pycache", self.name + "+" + os.path.basename(path))

    def load(name):
        """Imports `_accelprof_hooks.NAME`."""
        name, path = "_accelprof_hooks." + name, os.path.join(hooks, name + ".py")
        spec = spec_from_file_location(name, path, loader=Loader(name, path))
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    package = sys.modules["_accelprof_hooks"] = type(sys)("_accelprof_hooks")
    package.__path__ = []
    try:
        package.postimport = load("postimport")
        package.postimport.install(hooks, Loader)
        from _accelprof_hooks import bootstrap

        bootstrap.start(spool, folder)
    except Exception:  # the job comes first; the profiler sees a process without hooks
        for name in [name for name in sys.modules if name.startswith("_accelprof_hooks")]:
            del sys.modules[name]


_folder = os.path.dirname(__file__)
_hide(_folder)
if sys.version_info >= (3, 9):
    _start(_folder)
# The job's own one, if any. When there is none, this raises the very ImportError that site.py
# expects and swallows; whatever the job's own one raises passes as it would without us.
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402, F401
