"""Optimizer steps of torch, through its own hook for all optimizers.

A step a GradScaler skips never reaches `Optimizer.step`, so it is not counted (a fused optimizer decides on the device
and is counted). Inside a compiled region the hook does nothing: tracing it would break the user's graph.
"""

import sys

from . import files, hooking, meters, progress

#: torch.compiler.is_compiling is there from this version on.
COMPILER_SINCE = (2, 3)


def hook_optimizer(module):
    """torch.optim.optimizer was executed."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        return False
    if not any(getattr(hook, hooking._MARK, False) for hook in module._global_optimizer_post_hooks.values()):
        register(_make_hook(sys.modules["torch"]))
    job = progress.job
    hooks = ((meters.gpu, job.slow), (meters.place, job.slow), (meters.tensors, job.tenth), (_tell_size, job.optimizers))
    for call, calls in hooks:
        if call not in calls:
            calls.append(call)
    return True


def _tell_size(optimizer):
    """Once for each optimizer, after its first step: by then its state is there."""
    job = progress.job
    weights, state = files.optimizer_bytes(optimizer)
    job.weights_bytes += weights
    job.optimizer_bytes += state
    job.tell(model_bytes=job.weights_bytes, optimizer_bytes=job.optimizer_bytes)


def _make_hook(torch):
    def stepped(optimizer, args, kwargs):
        try:
            progress.job.optimizer_stepped(optimizer)
        except Exception:
            progress.job.failed()

    def stepped_unless_compiling(optimizer, args, kwargs):
        if torch.compiler.is_compiling():
            return
        # As above, written out: a call costs as much as the count.
        try:
            progress.job.optimizer_stepped(optimizer)
        except Exception:
            progress.job.failed()

    major, minor = torch.__version__.split(".")[:2]
    hook = stepped_unless_compiling if (int(major), int(minor)) >= COMPILER_SINCE else stepped
    setattr(hook, hooking._MARK, True)
    return hook
