"""`lowtide.lightning.Callback`: for `lightning` and `pytorch_lightning`.

L.Trainer(callbacks=[lowtide.lightning.Callback()])
"""

from __future__ import annotations

import os
import sys
from typing import Any

from lowtide import _page
from lowtide._marks import stop_done
from lowtide._progress import Progress

# One of the two names is loaded already in a program that has a Trainer; its Callback is the one that is accepted.
if "lightning" not in sys.modules and "pytorch_lightning" in sys.modules:
    from pytorch_lightning.callbacks import Callback as _Base
else:
    try:
        from lightning.pytorch.callbacks import Callback as _Base
    except ImportError:
        try:
            from pytorch_lightning.callbacks import Callback as _Base
        except ImportError as error:
            raise ImportError("lowtide.lightning needs lightning or pytorch_lightning") from error

#: Where the state goes when the recorder asks to save and stop, below the Trainer's own folder.
STOP_CHECKPOINT = "lowtide-stop.ckpt"


class Callback(_Base):  # type: ignore[misc]
    """Marks steps, epochs, validations and saves; logs memory through the Trainer's loggers; honours a request to stop.

    log_every: to log host, GPU and tensors every so many steps, as lowtide/*; None logs nothing.
    cleanup_every, summary: as for `lowtide.Callback`.
    """

    def __init__(self, log_every: int | None = 10, cleanup_every: int | None = None, summary: bool = True) -> None:
        super().__init__()
        self.log_every = log_every
        self.print_summary = summary
        self.summary: str | None = None
        self._progress = Progress(cleanup_every)
        self._last_step = 0

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Before anything of torch moves: who makes the marks of what comes."""
        _page.claim()

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Remembers where memory starts."""
        self._last_step = int(trainer.global_step)
        self._progress.begin("lightning")

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The data is known now."""
        loader = trainer.train_dataloader
        self._progress.facts(
            examples=_length(getattr(loader, "dataset", None)),
            batch=getattr(loader, "batch_size", None),
            accum=trainer.accumulate_grad_batches,
            world_size=trainer.world_size,
            epochs=trainer.max_epochs,
        )

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Epochs from 0, as the Trainer counts."""
        self._progress.phase(_page.EPOCH, _page.START, trainer.current_epoch)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Ends it."""
        self._progress.phase(_page.EPOCH, _page.END, trainer.current_epoch + 1)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """A batch is a step only when the optimizer moved: gradients may be accumulated."""
        step = int(trainer.global_step)
        if step == self._last_step:
            return
        self._last_step = step
        self._progress.step(step)
        if self.log_every and step % self.log_every == 0:
            values = self._progress.readings()
            for logger in trainer.loggers if trainer.is_global_zero else ():
                logger.log_metrics(values, step=step)
        self._stop_if_asked(trainer)

    def _stop_if_asked(self, trainer: Any) -> None:
        if self._progress.asked_to_stop(int(trainer.world_size)) and not trainer.should_stop:
            trainer.should_stop = True
            trainer.save_checkpoint(os.path.join(trainer.default_root_dir, STOP_CHECKPOINT))
            stop_done()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """The check before training is an evaluation too: it takes memory like one."""
        self._progress.phase(_page.EVAL, _page.START, trainer.global_step)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Ends it."""
        self._progress.phase(_page.EVAL, _page.END, trainer.global_step)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Called when the state is put together, before it is written."""
        self._progress.phase(_page.SAVE, _page.POINT, trainer.global_step)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """The summary."""
        self.summary = self._progress.end()
        if self.print_summary and trainer.is_global_zero:
            print(self.summary, flush=True)


def _length(dataset: Any) -> float | None:
    try:
        return float(len(dataset))
    except TypeError:
        return None
