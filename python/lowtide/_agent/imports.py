"""Waits until the job imports a framework, and calls a hook right after the module that matters was executed.

Why the defining module and not the package: patched there, before anybody can say `from x import f`, one patch reaches
every user, and lazy packages (transformers) are hooked only where they are used. The loader keeps its class and its
place in the module's spec; only the one call of `exec_module` is borrowed, so resources, sources and reload work as before.
"""

import sys
from _thread import get_ident


class Finder:
    """A finder that finds nothing by itself: it asks the others and borrows their loader's `exec_module` once."""

    def __init__(self, hooks):
        #: Module name -> what to call with the module once it was executed.
        self.hooks = hooks
        self._asking = set()
        #: Modules (by identity) that were handed to their hook.
        self._done = {}

    def find_spec(self, name, path=None, target=None):
        if name not in self.hooks:
            return None
        key = (name, get_ident())
        if key in self._asking:
            return None
        self._asking.add(key)
        try:
            return self._borrow(name, path, target)
        finally:
            self._asking.discard(key)

    def sweep(self):
        """Hooks what is loaded already: the agent came late, or another finder was asked before us."""
        for name in self.hooks:
            module = sys.modules.get(name)
            if module is None or self._done.get(name) is module:
                continue
            spec = getattr(module, "__spec__", None)
            if not getattr(spec, "_initializing", False):
                self._loaded(name, module)

    def _borrow(self, name, path, target):
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            if find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                try:
                    self._wrap(name, spec.loader)
                except Exception:
                    pass
                return spec
        return None

    def _wrap(self, name, loader):
        execute = loader.exec_module

        def exec_module(module):
            ours = getattr(module, "__name__", None) == name
            if ours and loader.__dict__.get("exec_module") is exec_module:
                del loader.exec_module
            execute(module)
            if ours:
                self._done.pop(name, None)
                self._loaded(name, module)
                self.sweep()

        loader.exec_module = exec_module

    def _loaded(self, name, module):
        self._done[name] = module
        try:
            self.hooks[name](module)
        except Exception:
            pass


def install(hooks):
    """Puts a finder before all others and hooks what is there already."""
    finder = Finder(hooks)
    sys.meta_path.insert(0, finder)
    finder.sweep()
    return finder
