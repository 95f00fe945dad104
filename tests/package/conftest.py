"""Tests of the Python package, against its source and a program that cargo built.

`LOWTIDE_TEST_INSTALLED=1` tests what is installed in this environment instead, as users have it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytest_plugins = ["pytester"]

if not os.environ.get("LOWTIDE_TEST_INSTALLED"):
    sys.path.insert(0, str(ROOT / "python"))
    # For the processes that tests start.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    pytest_plugins.append("lowtide.pytest_plugin")
    os.environ.setdefault("LOWTIDE_BIN", str(ROOT / "target" / "debug" / "lowtide"))


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings and sockets of a test stay its own."""
    monkeypatch.setenv("LOWTIDE_DIR", str(tmp_path / "runs"))
    monkeypatch.delenv("LOWTIDE_MARKS", raising=False)


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite in a process of its own, so that its memory is its own; with the plugin as an installed package has it."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    if not os.environ.get("LOWTIDE_TEST_INSTALLED"):
        pytester.makeini("[pytest]\naddopts = -p lowtide.pytest_plugin\n")
    return pytester
