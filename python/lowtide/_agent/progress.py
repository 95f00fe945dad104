"""What this process has done so far: the step, the pass over the data, the evaluation it is in. Hooks report here.

Who tells the step, best first: the user's own `lowtide.step`, a framework with a step of its own (`driver`), optimizer
steps counted by rounds. Several optimizers (GAN, one optimizer a layer) make one round: a new one begins when an
optimizer steps that has stepped in this round, or when one appears that the rounds so far did not have.
Not here: how a mark is written (see `page`), what a framework calls things.
"""

import os
from time import clock_gettime_ns

from . import page as _page
from .page import ACTIVE, BOOTTIME, OFF, REQUEST, STEP_TIME, STEPS

SECOND = 1_000_000_000
#: After so many failures inside hooks the agent withdraws.
MOST_FAILURES = 25
TENTH = 10
#: Rounds with the same optimizers after which their set counts as settled.
SETTLED = 2
#: Of the steps of a settled loop between two tenths, one is timed and stands for all of them: a look at the clock costs
#: as much as the stores.
TIMED = 5


def now():
    """Nanoseconds since boot, by the recorder's clock."""
    return clock_gettime_ns(BOOTTIME)


def _steps_before():
    """Steps of the lives before this one, where the recorder started the job again: counted steps go on from there."""
    try:
        return max(0, int(os.environ.get("LOWTIDE_STEP", "0")))
    except ValueError:
        return 0


class Progress:
    """The state of one process; a forked child begins a new one."""

    def __init__(self):
        self.off = False
        self.failures = 0
        #: The framework that tells steps and phases, or None.
        self.driver = None
        #: Evaluations we are inside of; only the outermost one is marked.
        self.evaluations = 0
        #: A pass is open: its number is known.
        self.in_epoch = False
        self.epochs_begun = 0
        #: A loop is not yet known for what it is: `open` is called at steps.
        self.unsettled = False
        self.micro_at_steps = []
        self.hook_ns = 0
        self.worker = False
        self.steps = _steps_before()
        #: Of all optimizers that stepped by themselves.
        self.weights_bytes = self.optimizer_bytes = 0
        self._round = set()
        self._last_round = None
        self._same_rounds = 0
        #: The one optimizer of a settled loop: each of its steps is a step, and no more needs to be found out.
        self._only = None
        self._slow_next = 0
        self._told = {}
        self._known = set()
        #: Called with each new optimizer.
        self.optimizers = []
        #: Called at most once a second at a step's end, with (page, nanoseconds).
        self.slow = []
        #: Called every TENTH step, and at each step while `unsettled`, with (page, step, nanoseconds).
        self.tenth = []
        self.open = []

    def optimizer_stepped(self, optimizer):
        """An optimizer finished a step: counts, unless somebody else tells the number."""
        began = clock_gettime_ns(BOOTTIME)
        page = _page._page
        key = id(optimizer)
        if key == self._only and page is not None and not self.unsettled and not page.told:
            self.steps = number = self.steps + 1
            cells = page.u64
            if number % TIMED and began < self._slow_next and not cells[REQUEST]:
                cells[STEP_TIME] = began
                cells[STEPS] = number
            else:
                self.finished_step(number, began)
            return
        if self.driver is not None or self.off:
            return
        self._only = None
        if key not in self._known:
            self._known.add(key)
            for call in self.optimizers:
                # An optimizer of somebody's own may lack what we look for; its step counts all the same.
                try:
                    call(optimizer)
                except Exception:
                    self.failed()
        round_ = self._round
        if key in round_ or (self._same_rounds >= SETTLED and key not in self._last_round):
            if round_ == self._last_round:
                self._same_rounds += 1
            else:
                self._last_round, self._same_rounds = round_, 0
            self._round = {key}
        elif round_:
            round_.add(key)
            return
        else:
            round_.add(key)
        if self._same_rounds >= SETTLED and self._round == self._last_round:
            self._only = key
        self.steps += 1
        self.finished_step(self.steps, began)

    def finished_step(self, number, began):
        """Step `number` is done; `began` is when the hook was entered."""
        page = _page.current()
        if page is None or self.off:
            return
        self.steps = number
        if not page.told:
            page.count_step(number, began)
        if self.unsettled:
            for call in self.open:
                call(page, number, began)
        if self._only is not None and number % TENTH == TIMED:
            # For the eight that were not timed; a tenth is timed itself.
            self.hook_ns += (TENTH - 2) * (clock_gettime_ns(BOOTTIME) - began)
        self.look(page, number, began)
        self.hook_ns += clock_gettime_ns(BOOTTIME) - began
        page.cost(self.hook_ns)

    def look(self, page, number, at):
        """What is told now and then at a step's end, whoever counts the steps."""
        if number % TENTH == 0:
            for call in self.tenth:
                call(page, number, at)
        if at >= self._slow_next:
            self._slow_next = at + SECOND
            for call in self.slow:
                call(page, at)

    def takes_over(self, driver):
        """A framework with steps of its own begins to train."""
        self.driver = driver
        self._only = None

    def hands_back(self, error=None):
        """It ended: what comes is counted again, from its last step on."""
        if self.in_epoch:
            self.end_epoch()
        page = _page.current()
        if page is not None and error is None:
            page.stop_done()
        self.driver = None
        self._round = set()
        self._last_round = None
        self._same_rounds = 0

    def begin_epoch(self, finished, at=None):
        """A pass begins when `finished` passes are done."""
        page = _page.current()
        if page is None or self.off:
            return
        self.in_epoch = True
        self.epoch_number = finished
        page.epoch(finished)
        page.mark("epoch", "start", finished, {"step": page.steps}, at=at)

    def end_epoch(self):
        """The open pass ends."""
        page = _page.current()
        if page is None or self.off or not self.in_epoch:
            return
        self.in_epoch = False
        page.epoch(self.epoch_number + 1)
        page.mark("epoch", "end", self.epoch_number + 1, {"step": page.steps})

    def begin_eval(self, extra=None, at=None):
        """An evaluation begins; inside another one it is a part of it."""
        self.evaluations += 1
        page = _page.current()
        if page is not None and not self.off and self.evaluations == 1:
            page.mark("eval", "start", self.steps, extra, at=at)

    def end_eval(self):
        """The innermost evaluation ends."""
        if self.evaluations == 0:
            return
        self.evaluations -= 1
        page = _page.current()
        if page is not None and not self.off and self.evaluations == 0:
            page.mark("eval", "end", self.steps)

    def tell(self, **facts):
        """States facts, each only when it is new or has changed."""
        page = _page.current()
        if page is None or self.off:
            return
        fresh = {k: v for k, v in facts.items() if v is not None and self._told.get(k) != v}
        if fresh:
            self._told.update(fresh)
            page.info(**fresh)

    def failed(self):
        """A hook failed inside; too many failures and the agent withdraws."""
        self.failures += 1
        if self.failures >= MOST_FAILURES and not self.off:
            self.off = True
            self._only = None
            page = _page.current()
            if page is not None:
                page.state(OFF)


job = Progress()


def leave_if_stopped():
    """Ends the program when its training was saved and stopped because the recorder asked: what a script does with a
    trained model (evaluate, publish, write "done") is not for one that is half trained."""
    page = _page.current()
    if page is not None and page.stopped:
        raise SystemExit(0)


def activate():
    """Hooks are in place."""
    page = _page.current()
    if page is not None and not job.off:
        page.state(ACTIVE)


def _after_fork_in_child():
    global job
    old, job = job, Progress()
    job.slow, job.tenth, job.open, job.optimizers = old.slow, old.tenth, old.open, old.optimizers
    activate()


try:
    os.register_at_fork(after_in_child=_after_fork_in_child)
except Exception:
    pass
