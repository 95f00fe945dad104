"""The examples of docs/python.md work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def blocks(language: str) -> list[str]:
    """The page's code blocks under this word, whole."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(3))
def test_an_example_of_the_page_runs(number: int) -> None:
    found = blocks("python")
    assert len(found) == 3
    done = subprocess.run(
        [sys.executable, "-c", found[number]], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_example_of_a_test_passes(suite: pytest.Pytester) -> None:
    (code,) = blocks("python pytest")
    suite.makepyfile(code)
    suite.runpytest_subprocess("-q", timeout=60).assert_outcomes(passed=1)
