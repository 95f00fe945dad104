"""Memory as torch itself sees it: GPU allocator totals once a second, live tensors seldom and by measured cost.

Counting live tensors walks every object of the process with the interpreter held: 70 ms for a bare `import torch`. So it
runs at most every ten steps, and only when a thousand times its own cost has gone by since the last time.
"""

import gc
import sys

from .progress import now

#: One part in so many of the job's time may go into counting tensors.
SHARE = 1000
#: First guess of what one live block of memory costs, in ns (0.2 us an object were measured).
NS_A_BLOCK = 200

_tensor_next = None


def gpu(page, _now):
    """Bytes allocated and reserved, summed over the devices, if the job uses any."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return
    allocated = reserved = 0
    for device in range(cuda.device_count()):
        allocated += cuda.memory_allocated(device)
        reserved += cuda.memory_reserved(device)
    page.counters(gpu_allocated=allocated, gpu_reserved=reserved)


def place(page, _now):
    """The rank, where the environment did not say it (processes started by torch.multiprocessing.spawn)."""
    if page.ranked:
        return
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        page.place(dist.get_rank(), dist.get_world_size())


def tensors(page, step, at):
    """Counts live tensors when it is due; called every tenth step."""
    global _tensor_next
    if _tensor_next is None:
        _tensor_next = at + SHARE * NS_A_BLOCK * sys.getallocatedblocks()
    if at < _tensor_next:
        return
    began = now()
    count, host, device = count_tensors(sys.modules["torch"])
    page.counters(tensors=count, tensors_cpu=host, tensors_device=device)
    ended = now()
    _tensor_next = ended + SHARE * (ended - began)


def count_tensors(torch):
    """(count, bytes on the CPU, bytes on devices) of live tensors that own their memory.

    Types are compared, never `isinstance`: that would wake lazy proxies. Views and tensors over the same memory count once.
    """
    kinds = {torch.Tensor, torch.nn.Parameter}
    # `data_ptr()` would turn a lazy copy into a real one.
    address = getattr(torch._C, "_data_address", None) or torch.Tensor.data_ptr
    known = set()
    count = host = device = 0
    for thing in gc.get_objects():
        if type(thing) not in kinds:
            continue
        try:
            place_ = thing.device.type
            if place_ == "meta" or thing._is_view():
                continue
            at = address(thing)
            if at == 0 or (place_, at) in known:
                continue
            known.add((place_, at))
            size = thing.numel() * thing.element_size()
        except Exception:
            continue
        count += 1
        if place_ == "cpu":
            host += size
        else:
            device += size
    return count, host, device
