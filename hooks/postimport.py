"""Finders on sys.meta_path: run something when a module gets imported, without importing it.

`Finder` stands first. It resolves our own modules by path, and for a watched name returns the
real spec with `exec_module` set on the loader *instance*: the attribute is gone before the
module runs, so loader, spec and module stay what they are without us.
`PublicFinder` stands last: `import accelprof` works in a job whose environment does not have it.
"""

import sys
from _frozen_importlib_external import spec_from_file_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PRIVATE = "_accelprof_hooks."


class Finder:
    """First on sys.meta_path."""

    def __init__(self, folder: str, loader: "Any") -> None:
        self.folder = folder
        self.loader = loader
        self.watched: "dict[str, list[Callable[[Any], None]]]" = {}
        self.before: "dict[str, Callable[[], None]]" = {}

    def watch(self, name: str, after: "Callable[[Any], None]") -> None:
        """Calls `after(module)` once `name` is imported; now, when it is there already."""
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            after(module)
        else:
            self.watched.setdefault(name, []).append(after)

    def prepare(self, name: str, before: "Callable[[], None]") -> None:
        """Calls `before()` when a watched module is about to run; it must not raise."""
        self.before[name] = before

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name in self.watched:
            return self._find_watched(name, path, target)
        if name.startswith(PRIVATE):
            base = f"{self.folder}/{name[len(PRIVATE) :].replace('.', '/')}"
            if name.endswith(".frameworks"):
                base += "/__init__"
            spec = spec_from_file_location(
                name, base + ".py", loader=self.loader(name, base + ".py")
            )
            if spec is not None and name.endswith(".frameworks"):
                spec.submodule_search_locations = []
            return spec
        return None

    def _find_watched(self, name: str, path: "Any", target: "Any") -> "Any":
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                self._ride(spec, name)
                return spec
        return None

    def _ride(self, spec: "Any", name: str) -> None:
        loader = spec.loader
        if loader is None or isinstance(loader, type):
            return  # nothing that carries an attribute

        def exec_module(module: "Any") -> None:
            del loader.exec_module
            before = self.before.get(name)
            if before is not None:
                before()
            loader.exec_module(module)
            for after in self.watched.pop(name, ()):
                after(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass


class PublicFinder:
    """Last on sys.meta_path: resolves the light root package `accelprof` and nothing below it."""

    def __init__(self, folder: str) -> None:
        self.root = folder.rpartition("/")[0]

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != "accelprof":
            return None
        init = self.root + "/__init__.py"
        spec = spec_from_file_location(name, init)
        if spec is not None:
            spec.submodule_search_locations = []
        return spec


finder: Finder


def install(folder: str, loader: "Any") -> None:
    """Puts both finders in place."""
    global finder
    finder = Finder(folder, loader)
    sys.meta_path.insert(0, finder)
    sys.meta_path.append(PublicFinder(folder))
