"""Passes over torch DataLoaders: which pass of the training data this is, which loops are evaluations, what was taken.

Loops of a framework that drives (Trainer, Lightning, Keras) are only counted; it tells passes and phases itself. In a
plain loop a pass is marked at its second batch or first step, so that `next(iter(loader))` is no pass. It is an
evaluation when gradients are off or the model that is trained is in evaluation mode, and is corrected at the first step.
Two loaders side by side (zip) make one pass: that of the first. Not here: optimizer steps (see `torch_steps`).
"""

import os
import sys
import weakref

from . import hooking, progress
from . import page as _page
from .page import EPOCH, EXAMPLES, MICRO, REQUEST

#: Parameters looked at to find out whether a module is the one being trained.
MOST_PARAMETERS = 2000
#: Steps with the same number of micro-batches after which that number is told as the accumulation.
STEPS_FOR_ACCUM = 3
#: Steps after which nothing more is learnt of it.
STEPS_TO_LEARN = 64

#: Loops that wrap a loader's own iteration (accelerate), by the identity of the inner loader.
outer = {}

TRAINING, EVALUATION = "training", "evaluation"
#: Loops whose phases somebody else marks: inside an evaluation, or of a framework.
PART, DRIVEN = "part of an evaluation", "driven"


def _none():
    return None


#: The loop whose passes are told, the one a batch was last taken from, the open evaluation: weak, so that a loop left by
#: `break` ends when its iterator is dropped.
_training = _newest = _evaluation = _evaluated = _none
_trained = frozenset()


class Loop:
    """One iteration over one loader."""

    __slots__ = (
        "loader", "role", "began", "batches", "marked", "leads", "ended", "length", "batch", "rows", "told",
        "quick", "micro", "examples", "passes", "full", "u64", "f64", "__weakref__",
    )  # fmt: skip

    def __init__(self, loader):
        self.loader = weakref.ref(loader)
        self.began = progress.now()
        self.batches = 0
        self.marked = False
        #: It is the pass that is told, not one beside it.
        self.leads = False
        self.ended = False
        #: Batches that are in the page's counters.
        self.told = 0
        #: Nothing is left to find out: a batch is three stores (see `_make_next`).
        self.quick = False
        self.length, self.batch, self.rows = _sizes(loader)
        self.role = _role()
        progress.job.unsettled = True

    def took(self, data):
        """A batch was taken."""
        self.batches += 1
        if self.role != PART:
            self._took(data)

    def _took(self, data):
        global _newest
        if _newest() is not self:
            _slow_down()
            _newest = weakref.ref(self)
        if self.role == DRIVEN:
            if self.batches == 1 and progress.job.driver == "lightning":
                _tell_training(self.loader(), self)
            self._count(data)
        elif self.marked or self.batches >= 2:
            self.mark()
            if self.leads:
                self._count(data)

    def mark(self):
        """It is a real loop: says so, once."""
        global _training, _evaluation
        if self.marked or self.ended:
            return
        self.marked = True
        job = progress.job
        if self.role == EVALUATION:
            _evaluation = weakref.ref(self)
            job.begin_eval(at=self.began)
            _tell_eval(self.loader())
        elif self.role == TRAINING:
            leader = _training()
            if leader is not None and not leader.ended:
                return
            _end_evaluation()
            self.leads = True
            _training = weakref.ref(self)
            job.epochs_begun += 1
            job.begin_epoch(job.epochs_begun - 1, at=self.began)
            _tell_training(self.loader(), self)

    def stepped(self):
        """An optimizer stepped while this loop is the newest: it is training, whatever it looked like."""
        if self.role == EVALUATION:
            if self.marked:
                progress.job.end_eval()
                self.marked = False
            self.role = TRAINING
        if self.role == TRAINING:
            self.mark()
            if self.leads and self.told < self.batches:
                self._count(None)

    def exhausted(self):
        """The last batch was taken."""
        if self.batches and self.role in (TRAINING, EVALUATION):
            self.mark()
        if self.leads and self.told < self.batches:
            self._count(None)
        self.end()

    def end(self):
        """Exhausted, dropped or begun anew."""
        if self.ended:
            return
        self.ended = True
        self.quick = False
        if self.marked and self.role == EVALUATION:
            progress.job.end_eval()
        elif self.leads:
            progress.job.end_epoch()

    def __del__(self):
        try:
            self.end()
        except Exception:
            pass

    def _count(self, data):
        page = _page.current()
        if page is None:
            return
        fresh = self.batches - self.told
        self.told = self.batches
        page.took(fresh, self._examples(data, fresh))
        self.passes = None
        if self.length and self.leads and progress.job.in_epoch:
            self.passes = progress.job.epoch_number
            page.epoch(self.passes + self.batches / self.length)
        if self.rows and self.batch and _newest() is self and not self.ended:
            self.u64, self.f64 = page.cells()
            self.micro = self.u64[MICRO] - self.batches
            self.examples = self.u64[EXAMPLES] - min(self.batches * self.batch, self.rows)
            #: Batches of the full size.
            self.full = self.rows // self.batch
            self.quick = True

    def _examples(self, data, fresh):
        if self.rows and self.batch:
            before = self.batches - fresh
            return min(self.batches * self.batch, self.rows) - min(before * self.batch, self.rows)
        return fresh * (_rows_of(data) or self.batch or 0)


def _slow_down():
    # The page's counters are written by one loop at a time.
    newest = _newest()
    if newest is not None:
        newest.quick = False


def _role():
    if _evaluation() is not None and not _looks_like_evaluation():
        # Left by `break`, its iterator kept alive by persistent workers.
        _end_evaluation()
    job = progress.job
    if job.evaluations:
        return PART
    if job.driver is not None:
        # Lightning begins to read before it says that it evaluates.
        return DRIVEN if sys.modules["torch"].is_grad_enabled() else PART
    return EVALUATION if _looks_like_evaluation() else TRAINING


def _end_evaluation():
    loop = _evaluation()
    if loop is not None:
        loop.end()


def hook_dataloader(module):
    """torch.utils.data.dataloader was executed."""
    loader = getattr(module, "DataLoader", None)
    single = getattr(module, "_SingleProcessDataLoaderIter", None)
    multi = getattr(module, "_MultiProcessingDataLoaderIter", None)
    kinds = [kind for kind in (single, multi) if kind is not None and "_next_data" in vars(kind)]
    if loader is None or "__iter__" not in vars(loader) or len(kinds) != 2:
        return False
    hooking.replace(loader, "__iter__", _make_iter)
    for kind in kinds:
        kind._lowtide = None
        # Inside `__next__`, so that warnings still name the user's own line.
        hooking.replace(kind, "_next_data", _make_next)
    if optimizer_seen not in progress.job.optimizers:
        progress.job.optimizers.append(optimizer_seen)
        progress.job.open.append(stepped)
    return True


def _make_iter(function):
    def __iter__(self):
        iterator = function(self)
        try:
            if not progress.job.worker and not progress.job.off:
                iterator._lowtide = outer.get(id(self)) or begin(self)
        except Exception:
            progress.job.failed()
        return iterator

    return __iter__


def begin(loader):
    """A loop over a loader begins; a pass over the same loader that was left by `break` ends."""
    leader = _training()
    if leader is not None and leader.loader() is loader and not progress.job.evaluations:
        leader.end()
    return Loop(loader)


def _make_next(function):
    def _next_data(self):
        loop = self._lowtide
        if loop is None:
            return function(self)
        try:
            data = function(self)
        except StopIteration:
            try:
                if id(loop.loader()) not in outer:
                    loop.exhausted()
            except Exception:
                progress.job.failed()
            raise
        try:
            if loop.quick:
                # Written out here: a call for each part would cost more than the parts.
                loop.batches = loop.told = taken = loop.batches + 1
                cells = loop.u64
                cells[MICRO] = loop.micro + taken
                cells[EXAMPLES] = loop.examples + (taken * loop.batch if taken <= loop.full else loop.rows)
                passes = loop.passes
                if passes is not None:
                    loop.f64[EPOCH] = passes + taken / loop.length
                if not cells[REQUEST]:
                    return data
            else:
                loop.took(data)
        except Exception:
            progress.job.failed()
        page = _page.current()
        if page is not None:
            page.batch_taken()
        return data

    return _next_data


def stepped(page, step, _at):
    """At a step's end, while something is open: the newest loop is training; the accumulation, once it is sure."""
    job = progress.job
    newest = _newest()
    if job.driver is None and newest is not None and not newest.ended:
        newest.stepped()
    job.unsettled = job.driver is None and _learn_accum(job, page, step)


def _learn_accum(job, page, step):
    """Tells how many micro-batches make a step, as soon as some steps in a row agree; whether to look on."""
    seen = job.micro_at_steps
    if len(seen) > STEPS_TO_LEARN:
        return False
    seen.append(page.micro_batches)
    recent = seen[-1 - STEPS_FOR_ACCUM :]
    gaps = {late - early for early, late in zip(recent, recent[1:])}
    if len(recent) <= STEPS_FOR_ACCUM or len(gaps) != 1 or 0 in gaps:
        return True
    accum = gaps.pop()
    leader = _training()
    length = leader.length if leader is not None else None
    job.tell(accum=accum, epoch_steps=-(-length // accum) if length else None)
    return False


def hook_worker(module):
    """torch.utils.data._utils.worker was executed: workers say what they are."""
    loop = getattr(module, "_worker_loop", None)
    if loop is None or "worker_id" not in loop.__code__.co_varnames:
        return False
    index = loop.__code__.co_varnames.index("worker_id")

    def before(args, kwargs):
        progress.job.worker = True
        progress.job.tell(
            role="loader_worker", worker=kwargs.get("worker_id", args[index] if index < len(args) else None)
        )

    hooking.replace(module, "_worker_loop", hooking.around(before, lambda token, error: None))
    return True


def hook_module(module):
    """torch.nn.modules.module was executed: which model is in evaluation mode, and weights being loaded."""
    kind = getattr(module, "Module", None)
    if kind is None or not hooking.has(kind, "eval", "load_state_dict"):
        return False
    hooking.replace(kind, "eval", _make_eval)
    from . import files

    hooking.replace(kind, "load_state_dict", files.around_state_dict())
    return True


def _make_eval(function):
    def eval(self):
        global _evaluated
        if not _compiling():
            try:
                if progress.job.driver is None and _is_trained(self):
                    _evaluated = weakref.ref(self)
            except Exception:
                progress.job.failed()
        return function(self)

    return eval


def _compiling():
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    return compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling()


def _is_trained(module):
    # A frozen teacher or backbone in evaluation mode says nothing about the loop.
    if not _trained:
        return True
    parameters = zip(range(MOST_PARAMETERS), module.parameters())
    return any(id(parameter) in _trained for _, parameter in parameters)


def optimizer_seen(optimizer):
    """Remembers which parameters are trained; called when an optimizer makes its first step."""
    global _trained
    ids = {id(p) for group in optimizer.param_groups for p in group["params"][:MOST_PARAMETERS]}
    _trained = _trained | ids


def _looks_like_evaluation():
    torch = sys.modules["torch"]
    if not torch.is_grad_enabled():
        return True
    module = _evaluated()
    return module is not None and not module.training


def _sizes(loader):
    """(batches a pass, examples a batch, examples a pass) as far as they can be had without asking a stream."""
    length = batch = rows = None
    try:
        data = sys.modules["torch.utils.data"]
        sampler = loader.batch_sampler
        batch = loader.batch_size or getattr(sampler, "batch_size", None)
        if isinstance(loader.dataset, data.IterableDataset):
            return None, batch, None
        # Not len(loader): of a stream that would change what torch says about it later.
        length = len(sampler if sampler is not None else loader.sampler)
        if type(sampler) is data.BatchSampler:
            rows = len(sampler.sampler)
            if sampler.drop_last:
                rows -= rows % sampler.batch_size
    except Exception:
        pass
    return length, batch if isinstance(batch, int) else None, rows


def _rows_of(data):
    for _ in range(3):
        if hasattr(data, "shape"):
            return int(data.shape[0]) if len(data.shape) else None
        if isinstance(data, dict) or hasattr(data, "values"):
            data = next(iter(data.values()), None)
        elif isinstance(data, (list, tuple)) and data:
            data = data[0]
        else:
            return None
    return None


def _length(thing):
    try:
        return len(thing)
    except Exception:
        return None


def _tell_training(loader, loop):
    if loader is None:
        return
    stream = loop.length is None
    page = _page.current()
    progress.job.tell(
        examples=None if stream else _length(loader.dataset),
        batch=loop.batch,
        world_size=page.world_size if page is not None else None,
    )
    tell_loader(loader)


def tell_loader(loader):
    """How a training loader works: workers and what they hold ready."""
    progress.job.tell(
        workers=loader.num_workers,
        persistent_workers=bool(loader.persistent_workers),
        pin_memory=bool(loader.pin_memory),
        prefetch_factor=loader.prefetch_factor,
        drop_last=bool(getattr(loader.batch_sampler, "drop_last", loader.drop_last)),
    )


def _tell_eval(loader):
    if loader is None:
        return
    length, batch, _ = _sizes(loader)
    examples = None if length is None else _length(loader.dataset)
    progress.job.tell(eval_examples=examples, eval_batch=batch, eval_workers=loader.num_workers)


def _after_fork_in_child():
    global _training, _newest, _evaluation, _evaluated
    # A loop that goes on in the child must not write to its parent's page.
    _slow_down()
    _training = _newest = _evaluation = _evaluated = _none
    outer.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
