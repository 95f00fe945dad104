"""accelerate: its loaders run one batch ahead of the loop, so their own iteration is the pass; its state folders.

Steps come from torch's optimizers, which accelerate calls only when gradients are in sync. A loop that asks
`check_trigger` is told of a request to stop through it, on all ranks together.
"""

from . import files, hooking, progress, torch_data
from . import page as _page


def hook_loaders(module):
    """accelerate.data_loader was executed."""
    kinds = [getattr(module, name, None) for name in ("DataLoaderShard", "DataLoaderDispatcher")]
    if not all(kind is not None and "__iter__" in vars(kind) for kind in kinds):
        return False
    for kind in kinds:
        hooking.replace(kind, "__iter__", _make_iter)
    return True


def _make_iter(function):
    def __iter__(self):
        loop = inner = None
        try:
            inner = self.__dict__.get("base_dataloader")
            if inner is not None and progress.job.driver is None:
                loop = torch_data.outer[id(inner)] = torch_data.begin(inner)
        except Exception:
            progress.job.failed()
        finished = False
        try:
            for batch in function(self):
                yield batch
            finished = True
        finally:
            if loop is not None:
                torch_data.outer.pop(id(inner), None)
                _end(loop, finished)

    return __iter__


def _end(loop, finished):
    try:
        if finished:
            loop.exhausted()
        else:
            loop.end()
    except Exception:
        progress.job.failed()


def hook_accelerator(module):
    """accelerate.accelerator was executed."""
    kind = getattr(module, "Accelerator", None)
    if kind is None or not hooking.has(kind, "save_state", "load_state", "save_model"):
        return False
    hooking.replace(kind, "save_state", files.around("save", _state_folder, _state_saved))
    if hooking.has(kind, "set_trigger", "check_trigger"):
        hooking.replace(kind, "check_trigger", _make_check)
    hooking.replace(kind, "load_state", files.around("load", files.argument(1, "input_dir")))
    hooking.replace(kind, "save_model", files.around("save", files.argument(2, "save_directory")))
    return True


def _state_folder(args, kwargs):
    accelerator = args[0]
    if accelerator.project_configuration.automatic_checkpoint_naming:
        return "%s/checkpoints/checkpoint_%d" % (accelerator.project_dir, accelerator.save_iteration)
    return kwargs["output_dir"] if "output_dir" in kwargs else args[1]


_triggered = _told = False


def _make_check(function):
    def check_trigger(self):
        global _triggered, _told
        try:
            page = _page.current()
            if page is not None and progress.job.driver is None:
                if not _told:
                    _told = True
                    page.can_stop("accelerate")
                if not _triggered and page.stop_requested(self.num_processes):
                    _triggered = True
                    self.set_trigger()
        except Exception:
            progress.job.failed()
        return function(self)

    return check_trigger


def _state_saved(error):
    page = _page.current()
    if page is not None and _triggered and error is None:
        page.stop_done()
