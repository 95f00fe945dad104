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

#: Groups of tensors that look the same that are told, and dimensions of each.
MOST_LOOKS = 12
MOST_DIMENSIONS = 8

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
    found = Census(sys.modules["torch"])
    page.counters(tensors=found.count, tensors_cpu=found.host, tensors_device=found.device)
    found.tell(page, step)
    ended = now()
    _tensor_next = ended + SHARE * (ended - began)


class Census:
    """Live tensors that own their memory: how many, their bytes, by looks; and the gradients of parameters.

    Types are compared, never `isinstance`: that would wake lazy proxies. Views and tensors over the same memory count once.
    """

    def __init__(self, torch):
        self.count = self.host = self.device = 0
        #: (device, dtype, shape) -> [count, bytes].
        self.looks = {}
        self.gradients = [0, 0]
        # `data_ptr()` would turn a lazy copy into a real one.
        self._address = getattr(torch._C, "_data_address", None) or torch.Tensor.data_ptr
        self._known = set()
        parameter = torch.nn.Parameter
        kinds = {torch.Tensor, parameter}
        for thing in gc.get_objects():
            if type(thing) in kinds:
                try:
                    self._take(thing)
                    gradient = thing.grad if type(thing) is parameter else None
                    if gradient is not None:
                        # It is seen here for the first time where only its parameter holds it.
                        self._take(gradient)
                        self.gradients[0] += 1
                        self.gradients[1] += gradient.numel() * gradient.element_size()
                except Exception:
                    continue

    def _take(self, tensor):
        place_ = tensor.device.type
        if place_ == "meta" or tensor._is_view():
            return
        at = self._address(tensor)
        if at == 0 or (place_, at) in self._known:
            return
        self._known.add((place_, at))
        size = tensor.numel() * tensor.element_size()
        self.count += 1
        if place_ == "cpu":
            self.host += size
        else:
            self.device += size
        looks = self.looks.setdefault((str(tensor.device), str(tensor.dtype), tuple(tensor.shape)), [0, 0])
        looks[0] += 1
        looks[1] += size

    def tell(self, page, number):
        """States the looks with most bytes, and the gradients; `number` tells one census from the next."""
        most = sorted(self.looks.items(), key=lambda item: -item[1][1])[:MOST_LOOKS]
        for (device, dtype, shape), (count, size) in most:
            looks = {"n": number, "on": device, "type": dtype.rpartition(".")[2], "shape": shape[:MOST_DIMENSIONS]}
            page.info(tensors_alike=dict(looks, count=count, bytes=size))
        page.info(gradients={"n": number, "count": self.gradients[0], "bytes": self.gradients[1]})

