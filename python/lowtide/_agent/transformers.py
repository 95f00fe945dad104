"""transformers.Trainer: its events, its arguments, its evaluations and checkpoints.

The dispatcher of its callbacks is hooked, not the list: the user's callbacks stay as they are, and every trainer built on
it (TRL, Unsloth, Axolotl) is covered. Not here: torch's own loops and files.
"""

import functools
import os

from . import files, hooking, progress, resume
from . import page as _page

_stopping = False


def hook_callbacks(module):
    """transformers.trainer_callback was executed."""
    kind = getattr(module, "CallbackHandler", None)
    if kind is None or "call_event" not in vars(kind):
        return False
    hooking.replace(kind, "call_event", _make_call_event)
    return True


def hook_trainer(module):
    """transformers.trainer was executed."""
    kind = getattr(module, "Trainer", None)
    if kind is None or not hooking.has(kind, "train", "evaluate", "predict", "_save_checkpoint", "save_model"):
        return False
    evaluation = hooking.around(lambda args, kwargs: progress.job.begin_eval() or True, _end_eval)
    for name in ("evaluate", "predict", "evaluation_loop"):
        if name in vars(kind):
            hooking.replace(kind, name, evaluation)
    hooking.replace(kind, "_save_checkpoint", files.around("save", _checkpoint_folder))
    hooking.replace(kind, "save_model", files.around("save", _model_folder))
    hooking.replace(kind, "train", _make_train)
    return True


def hook_models(module):
    """transformers.modeling_utils was executed."""
    kind = getattr(module, "PreTrainedModel", None)
    if kind is None or not hooking.has(kind, "from_pretrained", "save_pretrained"):
        return False
    hooking.replace(kind, "from_pretrained", files.around("load", files.argument(1, "pretrained_model_name_or_path")))
    hooking.replace(kind, "save_pretrained", files.around("save", files.argument(1, "save_directory")))
    return True


def _make_train(function):
    @functools.wraps(function)
    def train(self, *args, **kwargs):
        try:
            args, kwargs = resume.trainer(self, args, kwargs)
        except Exception:
            progress.job.failed()
        result = ended(self, *args, **kwargs)
        progress.leave_if_stopped()
        return result

    ended = hooking.around(lambda args, kwargs: None, lambda token, error: _train_ended(error))(function)
    return train


def _end_eval(token, error):
    if token:
        progress.job.end_eval()


def _checkpoint_folder(args, kwargs):
    trainer = args[0]
    return "%s/checkpoint-%d" % (trainer.args.output_dir, trainer.state.global_step)


def _model_folder(args, kwargs):
    given = kwargs.get("output_dir", args[1] if len(args) > 1 else None)
    return given if given is not None else args[0].args.output_dir


def _train_ended(error):
    if progress.job.driver == "transformers":
        progress.job.hands_back(error)


def _make_call_event(function):
    def call_event(self, event, args, state, control, **kwargs):
        began = progress.now()
        if event == "on_epoch_begin":
            _safely(_EVENTS[event], self, args, state, began)
        result = function(self, event, args, state, control, **kwargs)
        if event == "on_step_end":
            # The callbacks are the user's time, not ours.
            _safely(_step_end, self, args, state, progress.now())
            _safely(_stop, args, state, result)
        elif event == "on_epoch_end":
            _safely(_no_more, result)
            _safely(_epoch_end, self, args, state, began)
        elif event in _EVENTS and event != "on_epoch_begin":
            _safely(_EVENTS[event], self, args, state, began)
        return result

    return call_event


def _safely(function, *args):
    try:
        function(*args)
    except Exception:
        progress.job.failed()


def _train_begin(handler, args, state, began):
    job = progress.job
    job.takes_over("transformers")
    page = _page.current()
    if page is not None:
        if not page.ranked and args.world_size > 1:
            page.place(args.process_index, args.world_size)
        files.tell_folder(page, "checkpoint_dir", os.path.abspath(args.output_dir))
        by_signal = {"saves_on": "SIGTERM"} if getattr(args, "enable_jit_checkpoint", False) else {}
        page.begins_at(state.global_step)
        page.can_stop("trainer", **by_signal)
    loader = handler.train_dataloader
    accum = args.gradient_accumulation_steps
    length = _length(loader)
    job.tell(
        examples=_length(getattr(loader, "dataset", None)),
        batch=args.per_device_train_batch_size,
        accum=accum,
        world_size=args.world_size,
        epochs=state.num_train_epochs,
        epoch_steps=-(-length // accum) if length else None,
        max_steps=state.max_steps,
    )
    if handler.model is not None:
        # Its weights are copied to be written; the state of the optimizer is written as it is.
        job.tell(model_bytes=files.model_bytes(handler.model)[0])
    if loader is not None:
        from . import torch_data

        torch_data.tell_loader(getattr(loader, "base_dataloader", loader))


def _length(thing):
    try:
        return len(thing)
    except Exception:
        return None


def _epoch_begin(handler, args, state, began):
    # A little more: 0.9999 of a pass is a whole one.
    progress.job.begin_epoch(int((state.epoch or 0) + 1e-6))


def _epoch_end(handler, args, state, began):
    progress.job.end_epoch()


def _step_end(handler, args, state, began):
    page = _page.current()
    if page is not None:
        if state.epoch is not None:
            page.epoch(state.epoch)
        progress.job.finished_step(state.global_step, began)


def _train_end(handler, args, state, began):
    progress.job.hands_back()


def _stop(args, state, control):
    global _stopping
    page = _page.current()
    _stopping = page is not None and state.global_step < state.max_steps and page.stop_requested(args.world_size)
    if _stopping:
        control.should_save = True
        control.should_training_stop = True
        # It would come before the save, and there may be no memory for it.
        control.should_evaluate = False


def _no_more(control):
    # The pass ends early, and the save is done: nothing that belongs to the end of a pass.
    if _stopping:
        control.should_evaluate = control.should_save = control.should_log = False


_EVENTS = {
    "on_train_begin": _train_begin,
    "on_epoch_begin": _epoch_begin,
    "on_train_end": _train_end,
}
