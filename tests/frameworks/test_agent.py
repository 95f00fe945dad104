"""The agent alone, on every Python the machine has, with stand-ins for frameworks: it is there, and never in the way.

Interpreters: those of pyenv, python3.9 to python3.14 on the path, the one that tests/python314.py fetched, and what
LOWTIDE_TEST_PYTHONS names (by colons).
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


def interpreters():
    named = os.environ.get("LOWTIDE_TEST_PYTHONS", "").split(":")
    names = [n for n in named if n] + [sys.executable]
    names += [shutil.which(f"python3.{minor}") for minor in range(9, 15)]
    names += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python")))
    names += glob.glob(os.path.join(os.path.dirname(__file__), "../../target/python3.14/usr/bin/python3.14"))
    found = {}
    for name in filter(None, names):
        ask = [name, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        version = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
        if version and tuple(map(int, version.split("."))) >= (3, 9):
            found.setdefault(version, name)
    return found


PYTHONS = interpreters()
on_every_python = pytest.mark.parametrize("python", PYTHONS.values(), ids=PYTHONS.keys())


def script(tmp_path, text, name="job_script.py"):
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    return path


@on_every_python
def test_a_process_has_a_page_and_says_goodbye(run, python):
    result = run("-W", "error", "-X", "dev", "-c", "import os; print(os.getpid())", python=python)
    assert result.stderr == ""
    page = result.pages[int(result.stdout)]
    assert (page.version, page.state, page.steps, page.rank, page.world) == (1, 3, 0, -1, -1)


@on_every_python
def test_fork_spawn_forkserver_and_exec_have_pages_of_their_own(run, python, tmp_path):
    job = script(
        tmp_path,
        """
        import json, multiprocessing, os, sys

        def work(queue):
            page = sys.modules["lowtide_agent.page"].current()
            page.step(7)
            queue.put((os.getpid(), page.pid))

        if __name__ == "__main__":
            sys.modules["lowtide_agent.page"].current().step(3)
            pids = {}
            for method in ("fork", "spawn", "forkserver"):
                context = multiprocessing.get_context(method)
                queue = context.SimpleQueue()
                child = context.Process(target=work, args=(queue,))
                child.start()
                pid, said = queue.get()
                child.join()
                assert pid == said == child.pid and child.exitcode == 0
                pids[method] = pid
            sys.modules["lowtide_agent.page"].current().mark("custom", "point", 1.0, {"name": "before exec"})
            os.environ["PIDS"] = json.dumps(dict(pids, pid=os.getpid()))
            os.execv(sys.executable, [sys.executable, "-c", "import os; print(os.environ['PIDS'])"])
    """,
    )
    result = run(job, python=python)
    said = result.said
    for method in ("fork", "spawn", "forkserver"):
        assert result.pages[said[method]].steps == 7
    # After exec the ring goes on and the counters begin anew.
    assert result.page.steps == 0 and result.page.state == 3
    assert [e["name"] for e in result.page.extras("custom", "point")] == ["before exec"]


@on_every_python
def test_rank_and_world_size_come_from_the_launcher(run, python):
    result = run("-c", "pass", python=python, env={"RANK": "3", "WORLD_SIZE": "8"})
    (page,) = result.pages.values()
    assert (page.rank, page.world) == (3, 8)


@on_every_python
def test_the_users_own_sitecustomize_runs_and_the_path_is_as_it_was(run, site, python, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys; sys.mine = __name__, __file__\n")
    code = "import json, os, sys, sitecustomize as s; print(json.dumps([sys.mine, s.__file__, sys.path, os.getpid()]))"
    with_agent = run("-c", code, python=python, env={"PYTHONPATH": f"{site}:{own}"})
    mine, file, path, pid = json.loads(with_agent.stdout)
    assert mine == ["sitecustomize", str(own / "sitecustomize.py")] and file == mine[1]
    assert with_agent.pages[pid].state == 3
    without = run("-c", code, python=python, agent=False, env={"PYTHONPATH": str(own)})
    assert json.loads(without.stdout)[2] == path


@on_every_python
def test_a_broken_sitecustomize_of_the_user_fails_as_without_us(run, site, python, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("raise RuntimeError('mine')\n")
    with_agent = run("-c", "print(1)", python=python, env={"PYTHONPATH": f"{site}:{own}"})
    without = run("-c", "print(1)", python=python, agent=False, env={"PYTHONPATH": str(own)})
    assert (with_agent.code, with_agent.stdout, with_agent.stderr) == (without.code, without.stdout, without.stderr)
    assert "mine" in with_agent.stderr


STAND_INS = {
    "torch/__init__.py": "__version__ = '9.0'\nfrom torch import serialization\nfrom torch.optim import optimizer\n",
    "torch/serialization.py": "class _open_file: pass\n",
    "torch/optim/__init__.py": "",
    "torch/optim/optimizer.py": """
_global_optimizer_post_hooks = {}
def register_optimizer_step_post_hook(hook):
    _global_optimizer_post_hooks[len(_global_optimizer_post_hooks)] = hook
class Optimizer:
    param_groups = []
    def step(self):
        for hook in _global_optimizer_post_hooks.values():
            hook(self, (), {})
""",
    "torch/compiler.py": "def is_compiling(): return False\n",
    "torch/other.py": "",
}


@pytest.fixture
def stand_in(tmp_path):
    folder = tmp_path / "packages"
    for name, text in STAND_INS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


LOOP = """
import torch.compiler, torch.optim.optimizer as o
for n in range(5):
    opt = opt if n else o.Optimizer()
    opt.step()
"""


@on_every_python
def test_hooks_wait_for_the_import_and_unknown_parts_are_seen_not_hooked(run, site, python, stand_in):
    code = f"import os, sys\nsys.path.insert(0, {str(stand_in)!r})\n{LOOP}\nprint(os.getpid())"
    result = run("-W", "error", "-c", code, python=python)
    assert result.stderr == ""
    page = result.pages[int(result.stdout)]
    assert page.steps == 5
    assert page.facts["hooked"] == {"torch": "9.0"}
    assert page.facts["seen_not_hooked"] == {"torch.serialization": "9.0"}
    assert page.hook_ns > 0


CUDA = """
def is_initialized(): return True
def device_count(): return 2
def memory_allocated(device): return 1000 + device
def memory_reserved(device): return 3000 + device
"""


@on_every_python
def test_steps_of_an_own_loop_tell_gpu_memory_and_versions_without_an_optimizer(run, python, stand_in):
    (stand_in / "torch/cuda.py").write_text(CUDA)
    (stand_in / "torch/__init__.py").write_text(STAND_INS["torch/__init__.py"] + "from torch import cuda\n")
    package = str(Path(__file__).parents[2] / "python")
    code = f"""
import os, sys
sys.path[:0] = [{str(stand_in)!r}, {package!r}]
import torch, lowtide
for n in range(5):
    with lowtide.step():
        pass
# Before the end: what a job says when it is killed.
print(os.getpid(), flush=True)
os._exit(0)
"""
    result = run("-W", "error", "-c", code, python=python)
    assert result.stderr == ""
    page = result.pages[int(result.stdout)]
    assert page.steps == 5
    assert (page.gpu_allocated, page.gpu_reserved) == (2001, 6001)
    assert page.facts["hooked"] == {"torch": "9.0"}


@on_every_python
def test_import_machinery_stays_as_it_was(run, python, stand_in):
    code = f"""
import sys
sys.path.insert(0, {str(stand_in)!r})
import importlib, importlib.util, inspect, pkgutil
before = len(sys.meta_path)
assert importlib.util.find_spec("torch.optim.optimizer") is not None
import torch.optim.optimizer as o
assert type(o.__loader__).__name__ == "SourceFileLoader" and "exec_module" not in vars(o.__loader__)
assert o.__spec__.loader is o.__loader__
assert "class Optimizer" in inspect.getsource(o) and b"Optimizer" in pkgutil.get_data("torch.optim", "optimizer.py")
old = o.Optimizer
importlib.reload(o)
assert o.Optimizer is not old and len(o._global_optimizer_post_hooks) == 1
assert importlib.import_module("torch.other").__spec__.origin.endswith("other.py")
try:
    import torch.nothing
except ModuleNotFoundError as error:
    assert error.name == "torch.nothing"
else:
    raise AssertionError
"""
    result = run("-W", "error", "-c", code, python=python)
    assert (result.code, result.stderr) == (0, "")


@on_every_python
def test_other_import_hooks_and_lazy_modules_get_along(run, python, stand_in):
    code = f"""
import sys
sys.path.insert(0, {str(stand_in)!r})
import importlib.util

class Greedy:
    # Asks everybody else, as wrapt and its kin do.
    def find_spec(self, name, path=None, target=None):
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec:
                    return spec

sys.meta_path.insert(0, Greedy())
import torch
spec = importlib.util.find_spec("torch.compiler")
loader = importlib.util.LazyLoader(spec.loader)
spec.loader = loader
module = importlib.util.module_from_spec(spec)
sys.modules["torch.compiler"] = module
torch.compiler = module
loader.exec_module(module)
{LOOP}
page = sys.modules["lowtide_agent.page"].current()
assert page.steps == 5, page.steps
"""
    result = run("-c", code, python=python)
    assert (result.code, result.stderr) == (0, "")


@on_every_python
def test_a_finder_before_us_that_hides_a_module_is_swept_up_later(run, python, stand_in):
    code = f"""
import sys
sys.path.insert(0, {str(stand_in)!r})
from importlib.machinery import PathFinder

class Selfish:
    def find_spec(self, name, path=None, target=None):
        return PathFinder.find_spec(name, path, target) if name == "torch.optim.optimizer" else None

sys.meta_path.insert(0, Selfish())
import torch.optim.optimizer
import torch.serialization
import importlib
importlib.reload(torch.serialization)
{LOOP}
assert sys.modules["lowtide_agent.page"].current().steps == 5
"""
    result = run("-c", code, python=python)
    assert (result.code, result.stderr) == (0, "")


@on_every_python
@pytest.mark.parametrize("folder", ["missing", "file", "read-only"])
def test_without_a_usable_folder_the_job_runs_as_ever(run, python, tmp_path, folder):
    place = tmp_path / folder
    if folder == "file":
        place.write_text("")
    elif folder == "read-only":
        # Nobody may write to /proc, not even root.
        place = "/proc/self"
    result = run("-W", "error", "-c", "print('well')", python=python, env={"LOWTIDE_MARKS": str(place)})
    assert (result.code, result.stdout, result.stderr) == (0, "well\n", "")


@on_every_python
def test_a_folder_that_vanishes_and_a_recorder_that_died_change_nothing(run, python, stand_in, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"""
import os, shutil, sys
sys.path.insert(0, {str(stand_in)!r})
shutil.rmtree({str(gone)!r})
{LOOP}
child = os.fork()
if child == 0:
    o.Optimizer().step()
    os._exit(5)
assert os.waitpid(child, 0)[1] == 5 << 8
print(sys.modules["lowtide_agent.page"].current().steps)
"""
    result = run("-W", "error", "-c", code, python=python, env={"LOWTIDE_MARKS": str(gone)})
    assert (result.code, result.stdout, result.stderr) == (0, "5\n", "")


def test_on_a_full_disk_there_is_no_page_and_no_death(run, tmp_path):
    """A file size limit answers like a full disk: the blocks cannot be had, and nothing is mapped that could fault."""
    code = "import sys; print(sys.modules['lowtide_agent.page'].current())"
    limited = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
os.execv(sys.executable, [sys.executable, "-c", {code!r}])
"""
    marks_folder = tmp_path / "limited"
    marks_folder.mkdir()
    env = {"LOWTIDE_MARKS": str(marks_folder)}
    result = run("-S", "-c", limited, env=env)
    assert (result.code, result.stdout, result.stderr) == (0, "None\n", "")
    assert list(marks_folder.iterdir()) == []


@on_every_python
def test_isolated_python_has_no_page(run, python):
    result = run("-I", "-c", "print(1)", python=python)
    assert result.code == 0 and result.pages == {}


@on_every_python
def test_facts_too_long_for_a_record_are_split_and_texts_are_cut(run, python):
    code = """
import os, sys
page = sys.modules["lowtide_agent.page"].current()
page.info(**{f"fact_{n}": "x\u00fc" * 30 for n in range(8)}, number=1.5, bad=object(), nan=float("nan"))
page.mark("save", "end", 3.0, {"path": "\U0001f30a" * 500, "save_bytes": 10})
print(os.getpid())
"""
    result = run("-c", code, python=python)
    page = result.pages[int(result.stdout)]
    facts = page.facts
    assert sum(key.startswith("fact_") for key in facts) == 8 and facts["number"] == 1.5
    assert "bad" not in facts and "nan" not in facts
    (save,) = page.extras("save")
    assert save["save_bytes"] == 10 and set(save["path"]) == {"\U0001f30a"}


@on_every_python
def test_the_ring_wraps_and_keeps_the_newest(run, python):
    code = """
import os, sys
page = sys.modules["lowtide_agent.page"].current()
for n in range(1000):
    page.mark("custom", "point", float(n), {"name": "n"})
print(os.getpid())
"""
    result = run("-c", code, python=python)
    page = result.pages[int(result.stdout)]
    assert page.head == 1000
    assert [r.number for r in page.records] == [float(n) for n in range(748, 1000)]


@on_every_python
def test_start_up_imports_nothing_but_ourselves_and_mmap(run, python):
    code = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    with_agent = set(json.loads(run("-c", code, python=python).stdout))
    without = set(json.loads(run("-c", code, python=python, agent=False).stdout))
    new = {name for name in with_agent - without if not name.startswith("lowtide_agent")}
    assert new <= {"mmap", "atexit", "sitecustomize", "_collections"}, new


@on_every_python
def test_signals_filters_and_hooks_of_the_interpreter_are_untouched(run, python):
    code = """
import signal, sys, threading, warnings
handlers = [str(signal.getsignal(s)) for s in sorted(signal.valid_signals())]
print(handlers, warnings.filters, sys.excepthook, sys.displayhook)
print(threading.active_count(), sys.gettrace(), sys.getprofile())
import random; random.seed(1); print(random.random(), sys.flags, sys.dont_write_bytecode, sys.pycache_prefix)
"""
    for options in ([], ["-W", "error"], ["-B"]):
        with_agent, without = (run(*options, "-c", code, python=python, agent=a) for a in (True, False))
        assert with_agent.stdout == without.stdout and with_agent.stderr == without.stderr == ""


@on_every_python
def test_ranks_stop_at_the_step_that_is_named_or_go_on_all_of_them(run, site, python):
    code = """
import json, os, sys
sys.path.insert(0, JOBS)
from asking import ask_to_stop
page = sys.modules["lowtide_agent.page"].current()
page.can_stop("own loop")
stopped = []
for step in range(1, 11):
    page.count_step(step)
    if step == 4:
        ask_to_stop(AT)
    # Looked at once in a while, and by two at the same step.
    if step % EVERY == 0 and page.stop_requested() and page.stop_requested():
        stopped.append(step)
        page.stop_done()
print(json.dumps({"pid": os.getpid(), "stopped": stopped}))
"""
    jobs = os.path.join(os.path.dirname(__file__), "jobs")
    # Step to stop at, asked every so many steps, ranks -> where it stopped, whether the request was taken.
    cases = {
        (0, 1, 1): ([4], True),
        (0, 1, 2): ([], False),
        (7, 1, 1): ([7], True),
        (7, 1, 2): ([7], True),
        (7, 3, 2): ([9], True),
        (4, 1, 2): ([4], True),
        (3, 1, 2): ([], False),
        (20, 1, 2): ([], False),
    }
    for (at, every, ranks), (stopped, taken) in cases.items():
        text = code.replace("JOBS", repr(jobs)).replace("AT", str(at)).replace("EVERY", str(every))
        result = run("-c", text, python=python, env={"RANK": "0", "WORLD_SIZE": str(ranks)})
        assert result.said["stopped"] == stopped, (at, every, ranks)
        assert (result.page.taken, result.page.done) == (9 if taken else 0, 9 if stopped else 0)
        assert result.page.missed == (9 if at == 3 else 0)
        assert result.page.flags & 1 and result.page.facts["stop"] == "own loop"
