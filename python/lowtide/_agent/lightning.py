"""Lightning (`lightning` and `pytorch_lightning`): the dispatcher of its callbacks, and its checkpoints.

Nothing is added to `trainer.callbacks`, which Lightning writes into checkpoints. Validation before training (the sanity
check) is an evaluation like any other.
"""

import functools
import os

from . import files, hooking, progress, resume
from . import page as _page


def hook_calls(module):
    """lightning.pytorch.trainer.call was executed."""
    if not hooking.has(module, "_call_callback_hooks"):
        return False
    hooking.replace(module, "_call_callback_hooks", _make_call)
    return True


def hook_trainer(module):
    """lightning.pytorch.trainer.trainer was executed."""
    kind = getattr(module, "Trainer", None)
    if kind is None or not hooking.has(kind, "save_checkpoint", "fit"):
        return False
    hooking.replace(kind, "fit", _make_fit)
    hooking.replace(kind, "save_checkpoint", files.around("save", files.argument(1, "filepath")))
    return True


def _make_fit(function):
    @functools.wraps(function)
    def fit(self, *args, **kwargs):
        try:
            args, kwargs = resume.lightning(self, args, kwargs)
        except Exception:
            progress.job.failed()
        return function(self, *args, **kwargs)

    return fit


def _make_call(function):
    def _call_callback_hooks(trainer, hook_name, *args, **kwargs):
        before = _BEFORE.get(hook_name)
        if before is not None:
            _safely(before, trainer, args)
        result = function(trainer, hook_name, *args, **kwargs)
        after = _AFTER.get(hook_name)
        if after is not None:
            _safely(after, trainer, args)
        return result

    return _call_callback_hooks


def _safely(function, trainer, args):
    try:
        function(trainer, args)
    except Exception:
        progress.job.failed()


def _setup(trainer, args):
    progress.job.takes_over("lightning")


def _fit(trainer, args):
    page = _page.current()
    if page is not None:
        if not page.ranked and trainer.world_size > 1:
            page.place(trainer.global_rank, trainer.world_size)
        page.can_stop("lightning")


def _train(trainer, args):
    page = _page.current()
    if page is not None:
        page.begins_at(trainer.global_step)
        files.tell_folder(page, "checkpoint_dir", _folder(trainer))
    batches = _finite(trainer.num_training_batches)
    accum = trainer.accumulate_grad_batches
    progress.job.tell(
        accum=accum,
        world_size=trainer.world_size,
        epochs=_finite(trainer.max_epochs),
        max_steps=_finite(trainer.max_steps),
        epoch_steps=-(-batches // accum) if batches and accum else None,
    )
    whole, trained = files.model_bytes(trainer.lightning_module)
    progress.job.tell(model_bytes=COPIES * (whole + KEPT_BY_ADAM * trained))


#: Lightning puts a checkpoint together in memory, and copies it once more; Adam keeps two numbers a weight.
COPIES, KEPT_BY_ADAM = 2, 2


def _finite(number):
    return int(number) if number is not None and 0 < number < 1 << 53 else None


def _leave(trainer, args):
    job = progress.job
    while job.evaluations:
        job.end_eval()
    if job.driver == "lightning":
        job.hands_back()


def _begin_epoch(trainer, args):
    progress.job.begin_epoch(trainer.current_epoch)


def _batch_end(trainer, args):
    began = progress.now()
    page = _page.current()
    if page is None:
        return
    batches = trainer.num_training_batches
    if batches and len(args) > 2:
        page.epoch(trainer.current_epoch + (args[2] + 1) / batches)
    step = trainer.global_step
    if step == progress.job.steps:
        # Gradients are being gathered: a checkpoint would lose them.
        return
    progress.job.finished_step(step, began)
    if not _finished(trainer) and page.stop_requested(trainer.world_size):
        _stop(trainer, page)


def _finished(trainer):
    """Whether this was the last batch of all."""
    last_pass = trainer.max_epochs not in (None, -1) and trainer.current_epoch + 1 >= trainer.max_epochs
    return (trainer.is_last_batch and last_pass) or 0 < (trainer.max_steps or 0) <= trainer.global_step


def _folder(trainer):
    return os.path.abspath(getattr(trainer.checkpoint_callback, "dirpath", None) or trainer.default_root_dir)


def _stop(trainer, page):
    # Not by `should_stop`: that would end the pass, and with it validate, and keep a checkpoint that says the pass is done.
    try:
        trainer.save_checkpoint(os.path.join(_folder(trainer), "lowtide-stop-step=%d.ckpt" % trainer.global_step))
    except BaseException:
        page.stop_failed()
        raise
    page.stop_done()
    progress.leave_if_stopped()


def _begin_eval(trainer, args):
    progress.job.begin_eval()


def _end_eval(trainer, args):
    progress.job.end_eval()


_BEFORE = {
    "setup": _setup,
    "on_fit_start": _fit,
    "on_train_start": _train,
    "on_train_epoch_start": _begin_epoch,
    "on_validation_start": _begin_eval,
    "on_test_start": _begin_eval,
    "on_predict_start": _begin_eval,
}
_AFTER = {
    "on_train_batch_end": _batch_end,
    "on_train_epoch_end": lambda trainer, args: progress.job.end_epoch(),
    "on_validation_end": _end_eval,
    "on_test_end": _end_eval,
    "on_predict_end": _end_eval,
    "on_exception": _leave,
    "teardown": _leave,
}
