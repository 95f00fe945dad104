"""Builds the wheel, installs it in clean environments of every Python that is here, and tests it there as users have it.

    python3 tests/package/wheel.py [--wheel FILE]

The build is cargo's release build in target/, so it costs nothing where that is up to date. Not collected by pytest.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "target" / "wheel"
MATURIN = "maturin==1.16.0"
# Tests that need nothing but pytest run on every Python; the others on the one that runs this.
PLAIN_TESTS = ["test_marks.py", "test_verdict.py", "test_watch.py", "test_pytest_plugin.py"]
EXTRAS = ["numpy", "pillow", "ipython", "ipykernel", "nbclient"]
MINORS = range(9, 15)


def run(*command: str | Path, **env: str) -> str:
    """Runs a program; what it printed, or an end with it."""
    words = [str(word) for word in command]
    print("+", " ".join(words), flush=True)
    done = subprocess.run(words, env={**environment(), **env}, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\nerror: `{' '.join(words)}` failed ({done.returncode})")
    return done.stdout


def environment() -> dict[str, str]:
    """Nothing that leads a new environment back to this one."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LOWTIDE_BIN", "LOWTIDE_MARKS")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def build() -> Path:
    """The wheel of the source as it is now."""
    tool = HOME / "maturin"
    if not (tool / "bin" / "maturin").exists():
        run(sys.executable, "-m", "venv", tool)
        run(tool / "bin" / "python", "-m", "pip", "install", "--quiet", MATURIN)
    out = HOME / "dist"
    shutil.rmtree(out, ignore_errors=True)
    run(tool / "bin" / "maturin", "build", "--release", "--out", out)
    (wheel,) = out.glob("*.whl")
    return wheel


def pythons() -> dict[str, str]:
    """Every Python from 3.9 on that is here, by version."""
    found = {f"3.{sys.version_info.minor}": sys.executable}
    for minor in MINORS:
        name = f"python3.{minor}"
        pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
        places = [*sorted(glob.glob(f"{pyenv}/versions/3.{minor}.*/bin/python")), shutil.which(name)]
        for place in places:
            if place and works(place, f"3.{minor}"):
                found.setdefault(f"3.{minor}", place)
                break
    return found


def works(python: str, version: str) -> bool:
    """A pyenv shim is there for versions that are not, and some Pythons have no venv."""
    ask = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def look_into(wheel: Path) -> None:
    """What must be in a wheel: the program, the package, its types, the agent, the licences; and no machine's paths."""
    names = zipfile.ZipFile(wheel).namelist()
    version = wheel.name.split("-")[1]
    for wanted in (
        f"lowtide-{version}.data/scripts/lowtide",
        "lowtide/__init__.py",
        "lowtide/py.typed",
        "lowtide/_agent/page.py",
        f"lowtide-{version}.dist-info/licenses/LICENSE-MIT",
    ):
        assert wanted in names, f"{wanted} is missing from {wheel.name}"
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]


def test_on(version: str, python: str, wheel: Path) -> None:
    """One clean environment: the command, the module, the tests."""
    home = HOME / f"python{version}"
    shutil.rmtree(home, ignore_errors=True)
    run(python, "-m", "venv", home)
    own = home / "bin" / "python"
    run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    listed = run(own, "-m", "pip", "list", "--format", "freeze").split()
    assert {line.split("==")[0] for line in listed} <= {"lowtide", "pip", "setuptools"}, f"not without needs: {listed}"
    by_name = run(home / "bin" / "lowtide", "--help")
    assert by_name == run(own, "-m", "lowtide", "--help")
    assert "Memory truth for training jobs" in by_name
    told = run(home / "bin" / "lowtide", "--version")
    assert told == f"lowtide {run(own, '-c', 'import lowtide; print(lowtide.__version__)')}"
    main = python == sys.executable
    run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pytest>=8", *(EXTRAS if main else []))
    tests = ["tests/package"] if main else [f"tests/package/{name}" for name in PLAIN_TESTS]
    print(run(own, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, LOWTIDE_TEST_INSTALLED="1").strip())


def main() -> None:
    """The whole of it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--wheel", type=Path, help="test this one instead of building")
    given = arguments.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    wheel = (given.wheel or build()).resolve()
    look_into(wheel)
    found = pythons()
    for version, python in found.items():
        test_on(version, python, wheel)
    print(f"{wheel.name}: well on Python {', '.join(sorted(found, key=lambda name: int(name[2:])))}")


if __name__ == "__main__":
    main()
