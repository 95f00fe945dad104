"""`lowtide.keras.Callback`: for Keras 3, and for the Keras inside TensorFlow.

model.fit(..., callbacks=[lowtide.keras.Callback()])
"""

from __future__ import annotations

from typing import Any

from lowtide import _page
from lowtide._marks import stop_done
from lowtide._progress import Progress

try:
    from keras.callbacks import Callback as _Base
except ImportError as error:
    raise ImportError("lowtide.keras needs keras") from error


class Callback(_Base):  # type: ignore[misc]
    """Marks steps, epochs and evaluations; adds memory to the epoch's logs; honours a request to stop.

    save_on_stop: where to save the model when the recorder asks to save and stop; None leaves saving to callbacks of
        Keras (BackupAndRestore, ModelCheckpoint).
    cleanup_every, summary: as for `lowtide.Callback`.
    """

    def __init__(self, cleanup_every: int | None = None, save_on_stop: str | None = None, summary: bool = True) -> None:
        super().__init__()
        self.save_on_stop = save_on_stop
        self.print_summary = summary
        self.summary: str | None = None
        self._progress = Progress(cleanup_every)
        self._steps = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Steps go on over several calls of fit, as the optimizer's do."""
        self._progress.begin(None)
        page = _page.page()
        if page is not None and self.save_on_stop is not None:
            page.can_stop("keras")
        steps, epochs = self.params.get("steps"), self.params.get("epochs")
        self._progress.facts(epoch_steps=steps, epochs=epochs)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Epochs from 0, as Keras counts."""
        self._progress.phase(_page.EPOCH, _page.START, epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Adds memory to the logs, so that History and the callbacks after us have it."""
        self._progress.phase(_page.EPOCH, _page.END, epoch + 1)
        if logs is not None:
            logs.update(self._progress.readings())

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """One step."""
        self._steps += 1
        self._progress.step(self._steps)
        page = _page.page()
        if self.save_on_stop is None or page is None or self.model.stop_training:
            return
        if page.stop_requested():
            self.model.stop_training = True
            self.model.save(self.save_on_stop)
            stop_done()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """An evaluation, inside fit or by itself."""
        self._progress.phase(_page.EVAL, _page.START, self._steps)

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Ends it."""
        self._progress.phase(_page.EVAL, _page.END, self._steps)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """The summary."""
        self.summary = self._progress.end()
        if self.print_summary:
            print(self.summary, flush=True)
