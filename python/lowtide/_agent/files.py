"""Saves and loads: when a checkpoint is written or read, and how many bytes.

The outermost operation of a thread is the mark; what it calls only adds its bytes (a Trainer's save that calls torch.save
five times is one save). Files and folders count, serialising into memory does not.
"""

import os
import sys
import time
from _thread import _local

from . import hooking, progress
from . import page as _page

#: Marks of one kind a second; a program that saves more often is not flooding the page.
MOST_A_SECOND = 10
#: Files of a checkpoint folder that are summed up.
MOST_FILES = 10_000

_threads = _local()
_recent = {}
_told = {}


class Work:
    """One save or load."""

    __slots__ = ("kind", "path", "bytes", "began", "marked")

    def __init__(self, kind, path):
        self.kind = kind
        self.path = path
        self.bytes = 0
        self.began = time.time()
        self.marked = False


def begin(kind, path=None):
    """A save or load begins; gives what `end` wants."""
    stack = _threads.__dict__.setdefault("stack", [])
    work = Work(kind, path)
    stack.append(work)
    page = _page.current()
    if len(stack) == 1 and page is not None and not progress.job.off and _seldom(kind):
        work.marked = True
        if kind == "save" and path is not None:
            tell_folder(page, "save_dir", os.path.dirname(os.path.abspath(path)))
        page.mark(kind, "start", progress.job.steps, _name(path))
    return work


def end(work, error=None, size=None):
    """It ended, well or by an error."""
    stack = _threads.__dict__.get("stack")
    if work is None or not stack or work not in stack:
        return
    while stack.pop() is not work:
        pass
    if stack:
        if size is None:
            size = work.bytes or _size(work.path, work.began if work.kind == "save" else 0)
        stack[-1].bytes += size or 0
        return
    if not work.marked:
        return
    size = size or _size(work.path, work.began if work.kind == "save" else 0) or work.bytes
    page = _page.current()
    if page is not None:
        facts = _name(work.path)
        if size:
            facts[work.kind + "_bytes"] = size
        if error:
            facts["failed"] = error
        page.mark(work.kind, "end", progress.job.steps, facts)


def around(kind, path_of, then=None):
    """A maker for `hooking.replace`: the call is a save or a load of what `path_of(args, kwargs)` names.

    `then(error)` is called when it has ended.
    """

    def before(args, kwargs):
        try:
            path = path_of(args, kwargs)
        except Exception:
            path = None
        return begin(kind, path)

    def after(work, error):
        end(work, error)
        if then is not None:
            then(error)

    return hooking.around(before, after)


def argument(position, name):
    """Takes an argument by place or by name."""
    return lambda args, kwargs: kwargs[name] if name in kwargs else args[position]


def around_state_dict():
    """For Module.load_state_dict: a load of as many bytes as the tensors have."""

    def before(args, kwargs):
        state = kwargs.get("state_dict", args[1] if len(args) > 1 else {})
        work = begin("load")
        work.bytes = sum(t.numel() * t.element_size() for t in state.values() if hasattr(t, "element_size"))
        return work

    # Its bytes came from memory: inside another load they were counted when they were read.
    def after(work, error):
        nested = len(_threads.__dict__.get("stack", ())) > 1
        end(work, error, 0 if nested else work.bytes if work is not None else None)

    return hooking.around(before, after)


def hook_torch_serialization(module):
    """torch.serialization was executed.

    The classes that hold the open file are hooked, not `save` and `load`: warnings name the caller of those by counting
    frames, and would name us.
    """
    names = ("_open_file", "_open_zipfile_writer_file", "_open_zipfile_writer_buffer", "_open_buffer_reader")
    kinds = [getattr(module, name, None) for name in names]
    if not all(isinstance(kind, type) and hooking.has(kind, "__init__", "__exit__") for kind in kinds):
        return False
    for kind in kinds:
        hooking.replace(kind, "__init__", _make_init)
        if "__exit__" not in vars(kind):
            kind.__exit__ = _inherited_exit(kind)
        hooking.replace(kind, "__exit__", _make_exit)
    return True


def _inherited_exit(kind):
    def __exit__(self, *args):
        return super(kind, self).__exit__(*args)

    return __exit__


def _make_init(function):
    def __init__(self, *args, **kwargs):
        function(self, *args, **kwargs)
        try:
            path = _path_of(args[0] if args else next(iter(kwargs.values())))
            if path is not None and _work_of(self) is None:
                mode = args[1] if len(args) > 1 else kwargs.get("mode", "")
                reads = "reader" in type(self).__name__ or "r" in str(mode)
                self._lowtide = begin("load" if reads else "save", path)
        except Exception:
            progress.job.failed()

    return __init__


def _make_exit(function):
    def __exit__(self, *args):
        try:
            return function(self, *args)
        finally:
            try:
                work = _work_of(self)
                if work is not None:
                    self._lowtide = None
                    error = args[0].__name__ if args and args[0] is not None else None
                    end(work, error)
            except Exception:
                progress.job.failed()

    return __exit__


def _work_of(opener):
    return getattr(opener, "__dict__", {}).get("_lowtide")


def _path_of(thing):
    """The path of a file, by name or open; None for what lives in memory."""
    if isinstance(thing, (str, os.PathLike)):
        return os.fspath(thing)
    name = getattr(thing, "name", None)
    if isinstance(name, (str, bytes)) and hasattr(thing, "fileno"):
        thing.fileno()
        return os.fsdecode(name)
    return None


def hook_safetensors(module):
    """safetensors.torch was executed."""
    if not hooking.has(module, "save_file", "load_file"):
        return False
    hooking.replace(module, "save_file", around("save", argument(1, "filename")))
    hooking.replace(module, "load_file", around("load", argument(0, "filename")))
    return True


def hook_datasets(module):
    """datasets.load was executed."""
    if not hooking.has(module, "load_dataset", "load_from_disk"):
        return False
    top = sys.modules.get("datasets")
    hooking.replace(module, "load_dataset", around("load", lambda args, kwargs: None), top)
    hooking.replace(module, "load_from_disk", around("load", argument(0, "dataset_path")), top)
    return True


def model_bytes(model):
    """(bytes of a torch model, bytes of its parameters that are trained)."""
    whole = sum(_bytes(tensor) for tensor in model.buffers())
    trained = 0
    for tensor in model.parameters():
        size = _bytes(tensor)
        whole += size
        trained += size if tensor.requires_grad else 0
    return whole, trained


def optimizer_bytes(optimizer):
    """(what a save copies of the weights of an optimizer, bytes of its own state).

    torch.save copies what is not on the host, one tensor at a time; a loop that copies the weights by itself copies those
    on the host as well.
    """
    host = largest = 0
    for group in optimizer.param_groups:
        for tensor in group["params"]:
            if tensor.device.type == "cpu":
                host += _bytes(tensor)
            else:
                largest = max(largest, _bytes(tensor))
    state = 0
    for values in optimizer.state.values():
        state += sum(_bytes(value) for value in values.values() if hasattr(value, "element_size"))
    return host + largest, state


def _bytes(tensor):
    return tensor.numel() * tensor.element_size()


def tell_folder(page, key, folder):
    """Says where saves go, when it is another place than before."""
    if _told.get((page.pid, key)) != folder:
        _told[(page.pid, key)] = folder
        page.folder(key, folder)


def _seldom(kind):
    second = int(time.monotonic())
    last, count = _recent.get(kind, (second, 0))
    count = count + 1 if last == second else 1
    _recent[kind] = (second, count)
    return count <= MOST_A_SECOND


def _name(path):
    if path is None:
        return {}
    return {"path": os.path.basename(os.path.normpath(os.fspath(path)))}


def _size(path, since):
    """Bytes of a file, or of the files of a folder that are not older than `since`."""
    try:
        if not os.path.isdir(path):
            return os.stat(path).st_size
    except (OSError, TypeError, ValueError):
        return None
    total = seen = 0
    for folder, _, names in os.walk(path):
        for name in names:
            seen += 1
            if seen > MOST_FILES:
                return None
            try:
                facts = os.stat(os.path.join(folder, name))
            except OSError:
                continue
            if facts.st_mtime >= since - 2:
                total += facts.st_size
    return total
