"""Keras 3, on any of its backends: the list that calls its callbacks, its data, its files.

Keras tells no global step to its callbacks; it is the optimizer's count at the start plus the batches since. It can be
resumed at the end of a pass only, so that is where a request to stop is honoured: its own callbacks have saved by then.
"""

import math
import os
import weakref

from . import files, hooking, progress
from . import page as _page

_METHODS = (
    "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_train_batch_end", "on_test_begin", "on_test_end"
)  # fmt: skip

_base = _done = _epoch = 0
_first_pass = True
_sized = False
_data = None


def hook_callbacks(module):
    """keras.src.callbacks.callback_list was executed."""
    kind = getattr(module, "CallbackList", None)
    if kind is None or not all(name in vars(kind) for name in _METHODS):
        return False
    before = {"on_train_begin": _train_begin, "on_epoch_begin": _epoch_begin, "on_test_begin": _test_begin}
    after = {
        "on_train_end": _train_end,
        "on_epoch_end": _epoch_end,
        "on_train_batch_end": _batch_end,
        "on_test_end": _test_end,
    }
    for name in _METHODS:
        hooking.replace(kind, name, _maker(before.get(name), after.get(name)))
    return True


def hook_data(module):
    """keras.src.trainers.epoch_iterator was executed."""
    kind = getattr(module, "EpochIterator", None)
    if kind is None or "__init__" not in vars(kind):
        return False
    hooking.replace(kind, "__init__", _make_init)
    return True


def hook_saving(module):
    """keras.src.saving.saving_api was executed."""
    if not hooking.has(module, "save_model", "load_model", "save_weights", "load_weights"):
        return False
    for name in ("save_model", "save_weights"):
        hooking.replace(module, name, files.around("save", files.argument(1, "filepath")))
    hooking.replace(module, "load_model", files.around("load", files.argument(0, "filepath")))
    hooking.replace(module, "load_weights", files.around("load", files.argument(1, "filepath")))
    return True


def _make_init(function):
    def __init__(self, *args, **kwargs):
        global _data
        function(self, *args, **kwargs)
        try:
            _data = weakref.ref(self)
        except Exception:
            progress.job.failed()

    return __init__


def _maker(before, after):
    def make(function):
        def method(self, *args, **kwargs):
            if before is not None:
                _safely(before, self, args)
            result = function(self, *args, **kwargs)
            if after is not None:
                _safely(after, self, args)
            return result

        return method

    return make


def _safely(function, callbacks, args):
    try:
        function(callbacks, args)
    except Exception:
        progress.job.failed()


def _train_begin(callbacks, args):
    global _first_pass, _sized
    _first_pass, _sized = True, False
    job = progress.job
    job.takes_over("keras")
    page = _page.current()
    folder = _saves_to(callbacks)
    if page is not None and folder is not None:
        files.tell_folder(page, "checkpoint_dir", os.path.abspath(folder))
        page.can_stop("keras", stop_every="epoch")
    params = callbacks.params or {}
    data = _data() if _data is not None else None
    adapter = getattr(data, "data_adapter", None)
    job.tell(
        examples=_examples(adapter),
        batch=_whole(getattr(adapter, "batch_size", None)),
        epochs=_whole(params.get("epochs")),
        epoch_steps=_whole(params.get("steps")),
    )


def _saves_to(callbacks):
    """The folder of a callback that saves at the end of a pass; a BackupAndRestore is what Keras resumes from."""
    found = None
    for callback in callbacks.callbacks:
        names = [kind.__name__ for kind in type(callback).__mro__]
        if "BackupAndRestore" in names:
            return callback.backup_dir
        if "ModelCheckpoint" in names and callback.save_freq == "epoch":
            found = os.path.dirname(str(callback.filepath)) or "."
    return found


def _iterations(model):
    try:
        return int(model.optimizer.iterations)
    except Exception:
        return 0


def _whole(number):
    return number if isinstance(number, int) else None


def _examples(adapter):
    known = getattr(adapter, "_num_samples", None)
    if known is None:
        try:
            known = len(adapter._dataloader.dataset)
        except Exception:
            return None
    return _whole(known)


def _epoch_begin(callbacks, args):
    global _base, _done, _epoch, _first_pass
    if _first_pass:
        # Not when training begins: a callback may load a backup then.
        _base, _done, _first_pass = _iterations(callbacks.model), 0, False
    _epoch = args[0] if args else _epoch
    progress.job.begin_epoch(_epoch)


def _epoch_end(callbacks, args):
    global _base, _done
    _base, _done = _base + _done, 0
    progress.job.end_epoch()
    page = _page.current()
    last = args and args[0] + 1 >= (callbacks.params or {}).get("epochs", 0)
    if page is not None and not last and _saves_to(callbacks) is not None and page.stop_requested():
        callbacks.model.stop_training = True
        for callback in callbacks.callbacks:
            # Its backup is what the next life begins from.
            if getattr(callback, "delete_checkpoint", False):
                callback.delete_checkpoint = False


#: A whole model is put together in memory before it is written, and took 1.6 times its bytes; weights alone took 0.6.
COPIES_OF_A_MODEL = 2


def _tell_size(callbacks):
    """What a save takes, the optimizer's part included. Told after the first batch: until then neither may be built."""
    model = callbacks.model
    whole = sum(_bytes(variable) for variable in [*model.variables, *model.optimizer.variables])
    copies = COPIES_OF_A_MODEL if any(map(_writes_models, callbacks.callbacks)) else 1
    progress.job.tell(model_bytes=copies * whole)


def _writes_models(callback):
    names = [kind.__name__ for kind in type(callback).__mro__]
    return "ModelCheckpoint" in names and not callback.save_weights_only


def _bytes(variable):
    bits = "".join(letter for letter in str(variable.dtype) if letter.isdigit()) or "8"
    return math.prod(variable.shape) * (int(bits) // 8)


def _batch_end(callbacks, args):
    global _done, _sized
    began = progress.now()
    page = _page.current()
    if page is None or not args:
        return
    _done = args[0] + 1
    steps = (callbacks.params or {}).get("steps")
    if steps:
        page.epoch(_epoch + _done / steps)
    progress.job.finished_step(_base + _done, began)
    if not _sized:
        _sized = True
        _tell_size(callbacks)


def _train_end(callbacks, args):
    if progress.job.driver == "keras":
        progress.job.hands_back()
    progress.leave_if_stopped()


def _test_begin(callbacks, args):
    progress.job.begin_eval()


def _test_end(callbacks, args):
    progress.job.end_eval()
