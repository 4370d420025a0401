"""The first file of the hooks: makes the private package `_accelprof_hooks` and fills it."""

import sys
from _frozen_importlib_external import SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

PACKAGE = "_accelprof_hooks"


class Loader(SourceFileLoader):
    """Loads our files. `code` is where their code comes from: see inject/sitecustomize.py."""

    code: "Callable[[str, str], CodeType]"
    codes: "list[CodeType]" = []  # of the modules loaded so far; torch.compile has to skip them

    def get_code(self, fullname: str) -> "CodeType":
        code = Loader.code(fullname, self.path)
        Loader.codes.append(code)
        return code


def start(hooks: str, folder: str, spool: str, code: "Any") -> None:
    """Loads what every Python of the job needs, in the order of need, and starts it."""
    Loader.code = staticmethod(code)
    package = sys.modules[PACKAGE] = type(sys)(PACKAGE)
    package.__path__ = []
    for name in ("facts", "patching", "postimport", "borders", "bootstrap"):
        full, path = f"{PACKAGE}.{name}", f"{hooks}/{name}.py"
        module = sys.modules[full] = type(sys)(full)
        module.__file__, module.__package__ = path, PACKAGE
        setattr(package, name, module)
        exec(Loader(full, path).get_code(full), module.__dict__)
    package.postimport.install(hooks, Loader)
    package.bootstrap.start(spool, folder)
