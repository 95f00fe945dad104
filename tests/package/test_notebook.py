"""`%load_ext lowtide` in real notebooks: a real kernel, started by nbclient."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import nbclient
import nbformat
import pages
import pytest

CUSTOM, START, END = 7, 1, 2

STAND_IN = """
import time

class Trainer:
    def __init__(self, keep):
        self.keep, self.kept = keep, []

    def train(self):
        for _ in range(560 if self.keep else 250):
            self.kept.append(bytearray(400_000))
            if not self.keep:
                self.kept.clear()
            time.sleep(0.02)
        return "trained"
"""


def run(folder: Path, *cells: str, allow: tuple[int, ...] = ()) -> list[str]:
    """Runs the cells in a fresh kernel; gives what each printed or showed. Cells in `allow` may raise."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in cells])
    for number in allow:
        book.cells[number].metadata["tags"] = ["raises-exception"]
    nbclient.NotebookClient(book, timeout=60, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return [shown(cell) for cell in book.cells]


def shown(cell: nbformat.NotebookNode) -> str:
    said = [out.get("text") or out.get("data", {}).get("text/html") or "" for out in cell.outputs]
    return "".join(said)


def line_of(report: str, word: str) -> str:
    (line,) = [line for line in report.splitlines() if word in line]
    return line


def test_the_usual_holders_are_named_with_their_sizes(tmp_path: Path) -> None:
    *_, report = run(
        tmp_path,
        "%load_ext lowtide",
        "import numpy as np\nbig = np.ones((5, 2**20), dtype=np.uint8)\nsmall = 3",
        "np.ones(7 * 2**20, dtype=np.uint8)",
        """
        def train():
            activations = bytearray(9 * 2**20)
            raise MemoryError("as if")
        train()
        """,
        "%lowtide",
        allow=(3,),
    )
    assert report.startswith("this kernel holds ")
    assert re.search(r"5\.00 MiB +name big +ndarray 5x1048576 +del big", report)
    assert re.search(r"7\.00 MiB +Out\[3\] +ndarray 7340032 ", report)
    assert re.search(r"9\.00 MiB +last error, train\.activations +bytearray", report)
    assert "small" not in report
    assert re.search(r"cell 4 +added (9|1\d)\.\d+ MiB", report)


def test_dropping_as_told_gives_the_memory_back(tmp_path: Path) -> None:
    *_, before, _, after = run(
        tmp_path,
        "%load_ext lowtide",
        "big = bytearray(40 * 2**20)",
        "import numpy as np\nnp.ones(30 * 2**20, dtype=np.uint8)",
        "%lowtide",
        "del big\n%reset -f out",
        "%lowtide",
    )
    assert "name big" in before
    assert "Out[3]" in before
    assert "no name, Out entry or traceback holds more than 1.00 MiB" in after


def test_cells_are_marks_of_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = tmp_path / "marks"
    marks.mkdir(mode=0o700)
    monkeypatch.setenv("LOWTIDE_MARKS", str(marks))
    run(
        tmp_path,
        "%load_ext lowtide",
        "1 + 1",
        "1 / 0",
        "%unload_ext lowtide",
        "2 + 2",
        allow=(2,),
    )
    (page,) = pages.read(marks)
    cells = [(record.phase, record.number) for record in page.records if record.extra == {"name": "cell"}]
    assert cells == [(START, 2), (END, 2), (START, 3), (END, 3), (START, 4)]
    assert {record.kind for record in page.records} == {CUSTOM}


def test_each_fit_is_a_run_of_its_own_with_its_own_verdict(tmp_path: Path) -> None:
    package = tmp_path / "transformers"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "trainer.py").write_text(STAND_IN)
    *_, value, report, verdicts = run(
        tmp_path,
        "%load_ext lowtide",
        "from transformers.trainer import Trainer\nleaking = Trainer(True)\nleaking.train()",
        "calm = Trainer(False)\nprint(calm.train())",
        "%lowtide",
        "%lowtide fits",
    )
    assert value == "trained\n"
    assert "leak" in line_of(report, "fit 1, cell 2:")
    assert "leak" not in line_of(report, "fit 2, cell 3:")
    assert verdicts.count("<svg") == 2
    assert len(list((tmp_path / "runs").glob("*.tide"))) == 2
