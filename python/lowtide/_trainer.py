"""`lowtide.Callback`: for the Trainer of transformers and all that is built on it (TRL, Unsloth, Axolotl).

The work is in `TrainerHooks`, which needs no framework; `Callback` is it as a TrainerCallback.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from lowtide import _page
from lowtide._marks import stop_done
from lowtide._progress import Progress

try:
    from transformers.trainer_callback import TrainerCallback
except ImportError as error:
    raise ImportError(
        "lowtide.Callback needs transformers; for your own loop there is `with lowtide.step():`"
    ) from error


class TrainerHooks:
    """What happens at each event of a Trainer."""

    def __init__(
        self,
        log_every: int | None = 10,
        cleanup_every: int | None = None,
        report_to_tracker: bool = False,
        summary: bool = True,
    ) -> None:
        if log_every is not None and log_every < 1:
            raise ValueError(f"log_every is {log_every}; it must be 1 or more, or None for the Trainer's own pace")
        self.log_every = log_every
        self.report_to_tracker = report_to_tracker
        self.print_summary = summary
        self.summary: str | None = None
        self._progress = Progress(cleanup_every)
        self._stopping = False
        self._evaluating = False

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Trackers are called in the order of the list; to be logged by them, we must come first."""
        if self.report_to_tracker:
            _come_first(self)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Remembers where memory starts."""
        self._stopping = False
        self._progress.begin("trainer")

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The mark's number is the epoch that starts, from 0, as the Trainer counts."""
        self._progress.facts(**_facts(args, kwargs.get("train_dataloader")))
        self._progress.phase(_page.EPOCH, _page.START, state.epoch)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends it."""
        self._progress.phase(_page.EPOCH, _page.END, state.epoch)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Counts, cleans when due, asks for a log when due, and honours a request to save and stop."""
        self._end_evaluation(state)
        self._progress.step(int(state.global_step), state.epoch)
        if self.log_every is not None and state.global_step % self.log_every == 0:
            control.should_log = True
        if self._progress.asked_to_stop(int(getattr(args, "world_size", 1))):
            self._stopping = True
            control.should_save = True
            control.should_training_stop = True
        return control

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The first one is where an evaluation starts: the Trainer has no event for it."""
        if not self._evaluating:
            self._evaluating = True
            self._progress.phase(_page.EVAL, _page.START, state.global_step)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation ended."""
        self._end_evaluation(state)

    def on_predict(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """So did a prediction."""
        self._end_evaluation(state)

    def _end_evaluation(self, state: Any) -> None:
        if self._evaluating:
            self._evaluating = False
            self._progress.phase(_page.EVAL, _page.END, state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A checkpoint is complete. The Trainer has no event for its start: a moment, not a stretch."""
        self._progress.phase(_page.SAVE, _page.POINT, state.global_step)
        if self._stopping:
            stop_done()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Adds our values to what the Trainer logs now: to its history, and to all that come after us."""
        if logs is None or not state.is_world_process_zero:
            return
        values = self._progress.readings()
        logs.update(values)
        if state.log_history and state.log_history[-1].get("step") == state.global_step:
            state.log_history[-1].update(values)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The summary."""
        self.summary = self._progress.end()
        if self.print_summary and state.is_world_process_zero:
            print(self.summary, flush=True)


def _facts(args: Any, loader: Any) -> dict[str, float | None]:
    """Examples, batch, accumulation, epochs: what the verdict divides by."""
    dataset = getattr(loader, "dataset", None)
    try:
        examples: float | None = float(len(dataset)) if dataset is not None else None
    except TypeError:
        examples = None
    planned = getattr(args, "max_steps", -1) <= 0
    return {
        "examples": examples,
        "batch": getattr(args, "train_batch_size", None),
        "accum": getattr(args, "gradient_accumulation_steps", None),
        "world_size": getattr(args, "world_size", None),
        "epochs": getattr(args, "num_train_epochs", None) if planned else None,
    }


def _come_first(callback: object) -> bool:
    """Puts a callback before all others. The Trainer gives callbacks no way to their list but the call itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        handler: Any = frame.f_locals.get("self")
        listed = getattr(handler, "callbacks", None)
        if isinstance(listed, list) and any(one is callback for one in listed):
            # A new list: the old one is being walked over at this moment.
            handler.callbacks = [callback, *(one for one in listed if one is not callback)]
            return True
        frame = frame.f_back
    return False


class Callback(TrainerHooks, TrainerCallback):  # type: ignore[misc]
    """`Trainer(..., callbacks=[lowtide.Callback()])`.

    log_every: have the Trainer log at least every so many steps, with host, GPU and tensors by device in it; None adds
        them to the logs the Trainer makes anyway.
    cleanup_every: at every so many step ends collect garbage, trim the allocator and empty the GPU cache, and say what
        that gave back for how many milliseconds; stops by itself when it frees nothing.
    report_to_tracker: the same values as lowtide/* to what the Trainer reports to (W&B, MLflow, TensorBoard).
    summary: print the growth at the end, with the ten largest types and tensors; it is in `.summary` too.
    """
