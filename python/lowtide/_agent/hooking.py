"""Putting hooks into foreign modules: each one is looked for first, and what is not as we know it is left alone.

A package whose every hook is in place is told as "hooked" with its version, a module we do not know as
"seen_not_hooked". Not here: what the hooks do.
"""

import functools
import sys

from . import page as _page
from . import progress

_MARK = "__lowtide__"
_hooked = set()
_not_hooked = set()
_told = {}


def run(our_module, function, module):
    """Runs one of our hooks on a module that was just executed, and remembers how it went."""
    name = module.__name__
    ok = False
    try:
        ours = __import__(our_module, globals(), None, [function], 1)
        ok = bool(getattr(ours, function)(module))
    except Exception:
        pass
    if ok:
        _hooked.add(name.partition(".")[0])
        progress.activate()
    else:
        _not_hooked.add(name)
    if tell_versions not in progress.job.slow:
        progress.job.slow.append(tell_versions)


def seen(module):
    """Nothing to hook: its trainers are those of another package. Its version is told."""
    return True


def tell_versions(page, _now=None):
    """States what was hooked and in which version; at a step, because a version is set late in an import."""
    for key, names in (("hooked", _hooked), ("seen_not_hooked", _not_hooked)):
        for name in sorted(names):
            version = str(getattr(sys.modules.get(name.partition(".")[0]), "__version__", ""))
            if version and _told.get((page.pid, key, name)) != version:
                _told[(page.pid, key, name)] = version
                page.info(**{key: {name: version}})


def versions_at_exit():
    """A job that never made a step still says what it loaded."""
    page = _page.current()
    if page is not None:
        tell_versions(page)


def has(owner, *names):
    """Whether all of these are there to be hooked."""
    return all(callable(getattr(owner, name, None)) for name in names)


def replace(owner, name, make, *others):
    """Puts `make(original)` in the place of a function or method, once; `others` are modules that show it as well."""
    original = vars(owner)[name]
    function = original.__func__ if isinstance(original, (classmethod, staticmethod)) else original
    if getattr(function, _MARK, False):
        return
    ours = functools.wraps(function)(make(function))
    setattr(ours, _MARK, True)
    if function is not original:
        ours = type(original)(ours)
    setattr(owner, name, ours)
    for other in others:
        if getattr(other, name, None) is function:
            setattr(other, name, ours)


def around(before, after):
    """A maker for `replace`: `before(args, kwargs)` gives a token, `after(token, error)` is called however it ends.

    `error` is the name of the exception that ended the call, or None.
    """

    def make(function):
        def wrapper(*args, **kwargs):
            token = None
            try:
                token = before(args, kwargs)
            except Exception:
                progress.job.failed()
            error = None
            try:
                return function(*args, **kwargs)
            except BaseException as raised:
                error = type(raised).__name__
                raise
            finally:
                try:
                    after(token, error)
                except Exception:
                    progress.job.failed()

        return wrapper

    return make
