"""Starts the agent in this process: opens the page and waits for frameworks.

Kept small on purpose: every Python process of the job pays for it. What a framework needs is imported with it.
"""

import atexit
import sys

from . import imports, page

#: Module -> (our module, its function). Imported only when the job imports the left side.
HOOKS = {
    "torch.optim.optimizer": ("torch_steps", "hook_optimizer"),
    "torch.utils.data.dataloader": ("torch_data", "hook_dataloader"),
    "torch.utils.data._utils.worker": ("torch_data", "hook_worker"),
    "torch.nn.modules.module": ("torch_data", "hook_module"),
    "torch.serialization": ("files", "hook_torch_serialization"),
    "safetensors.torch": ("files", "hook_safetensors"),
    "transformers.trainer_callback": ("transformers", "hook_callbacks"),
    "transformers.trainer": ("transformers", "hook_trainer"),
    "transformers.modeling_utils": ("transformers", "hook_models"),
    "accelerate.data_loader": ("accelerate", "hook_loaders"),
    "accelerate.accelerator": ("accelerate", "hook_accelerator"),
    "lightning.pytorch.trainer.call": ("lightning", "hook_calls"),
    "pytorch_lightning.trainer.call": ("lightning", "hook_calls"),
    "lightning.pytorch.trainer.trainer": ("lightning", "hook_trainer"),
    "pytorch_lightning.trainer.trainer": ("lightning", "hook_trainer"),
    "keras.src.callbacks.callback_list": ("keras", "hook_callbacks"),
    "keras.src.saving.saving_api": ("keras", "hook_saving"),
    "keras.src.trainers.epoch_iterator": ("keras", "hook_data"),
    "datasets.load": ("files", "hook_datasets"),
    "trl": ("hooking", "seen"),
}


def start(marks=None):
    """Opens the page and installs the import hook; does nothing where nobody records, and never raises."""
    try:
        if page.open_page(marks) is not None:
            atexit.register(_leave)
            imports.install({name: _later(*where) for name, where in HOOKS.items()})
    except Exception:
        pass


def chain(ours):
    """Runs the user's own `sitecustomize`, as `import` would without us: its errors are the user's."""
    here = ours.rpartition("/")[0]
    # The program sees the path it would have had; child processes inherit the variable. In place, for those who hold it.
    sys.path[:] = [entry for entry in sys.path if entry != here]
    spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.origin == ours:
        return
    module = sys.modules["_frozen_importlib"].module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop("sitecustomize", None)
        raise


def _leave():
    hooking = sys.modules.get(__package__ + ".hooking")
    if hooking is not None:
        hooking.versions_at_exit()
    page.goodbye()


def _later(module_name, function):
    def hook(module):
        from . import hooking

        hooking.run(module_name, function, module)

    return hook
