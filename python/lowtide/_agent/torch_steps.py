"""Optimizer steps of torch, through its own hook for all optimizers.

A step a GradScaler skips never reaches `Optimizer.step`, so it is not counted (a fused optimizer decides on the device
and is counted). Inside a compiled region the hook does nothing: tracing it would break the user's graph.
"""

import sys

from . import hooking, meters, progress


def hook_optimizer(module):
    """torch.optim.optimizer was executed."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        return False
    if not any(getattr(hook, hooking._MARK, False) for hook in module._global_optimizer_post_hooks.values()):
        register(_make_hook(sys.modules["torch"]))
    for call, calls in ((meters.gpu, progress.job.slow), (meters.place, progress.job.slow)):
        if call not in calls:
            calls.append(call)
    if meters.tensors not in progress.job.each:
        progress.job.each.append(meters.tensors)
    return True


def _make_hook(torch):
    def compiling():
        return False

    def stepped(optimizer, args, kwargs):
        if is_compiling():
            return
        try:
            progress.job.optimizer_stepped(optimizer)
        except Exception:
            progress.job.failed()

    is_compiling = getattr(getattr(torch, "_utils", None), "is_compiling", None)
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", is_compiling) or compiling
    setattr(stepped, hooking._MARK, True)
    return stepped
