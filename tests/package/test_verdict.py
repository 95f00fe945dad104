"""`lowtide.verdict`: the program's own answer, as an object and in a notebook."""

from __future__ import annotations

import json
import xml.dom.minidom
from pathlib import Path

import lowtide
import pytest
from lowtide import _verdict

BASE = 100_000_000


def climb(steps: int, until: int) -> list[float]:
    return [BASE + min(step, until) * 2_000_000 for step in range(steps)]


def test_a_list_of_bytes_per_step_that_never_stops_rising_is_a_leak() -> None:
    told = lowtide.verdict(climb(60, 60))
    assert (told.kind, told.group, told.is_leak) == ("leak", "leak", True)
    assert repr(told) == told.headline == told.json["headline"]
    assert told.json["schema"] == "lowtide.verdict/1"
    assert told.confidence > 0.9


def test_what_the_run_knows_of_itself_makes_it_a_cache_fill_with_bytes_per_example() -> None:
    told = lowtide.verdict(climb(60, 20), examples=20, batch=1, limit="1GB")
    assert told.kind == "cache-fill"
    assert told.bytes_per_example == pytest.approx(2_000_000, rel=0.1)
    assert told.settled_at_step == pytest.approx(21, abs=1)
    assert (told.outcome.is_, told.outcome.limit_bytes) == ("fits", 1e9)


def test_a_curve_in_megabytes_with_its_context_is_the_same_curve() -> None:
    curve = {"y": [value / 1e6 for value in climb(60, 20)], "unit": "MB", "x_kind": "step"}
    told = lowtide.verdict({**curve, "context": {"examples": 20, "batch": 1}})
    assert told.kind == "cache-fill"
    assert told.line is not None
    assert max(told.line.y) == BASE + 40_000_000


def test_a_file_of_another_tool_is_read_by_the_program(tmp_path: Path) -> None:
    path = tmp_path / "memory.csv"
    path.write_text("step,rss_mb\n" + "".join(f"{n},{y / 1e6}\n" for n, y in enumerate(climb(60, 60))))
    assert lowtide.verdict(path).is_leak
    assert lowtide.verdict(str(path)).is_leak


def test_what_cannot_be_read_is_an_error_in_the_programs_words(tmp_path: Path) -> None:
    with pytest.raises(lowtide.LowtideError, match=r"no-such\.tide"):
        lowtide.verdict(tmp_path / "no-such.tide")
    with pytest.raises(lowtide.LowtideError, match="colour"):
        lowtide.verdict(climb(9, 9), colour="red")


def test_a_notebook_shows_the_curve_and_the_evidence() -> None:
    told = lowtide.verdict(climb(60, 20), examples=20, batch=1, limit="200MB")
    html, svg = told._repr_html_(), told._repr_svg_()
    assert svg is not None
    assert svg in html
    assert "settled at step" in svg
    assert "limit 191 MiB" in svg
    assert all(f">{line}" in html or f"<br>{line}" in html for line in told.evidence if "<" not in line)
    drawing = xml.dom.minidom.parseString(svg)
    (line,) = [path for path in drawing.getElementsByTagName("path") if path.getAttribute("stroke") == "#1f77b4"]
    assert line.getAttribute("d").count("L") == 59


def test_a_long_curve_is_drawn_with_its_peaks() -> None:
    y = [float(BASE)] * 50_000
    y[31_234] = 4.0 * BASE
    svg = lowtide.verdict(y)._repr_svg_()
    assert svg is not None
    assert len(svg) < 40_000
    assert f">{4 * BASE / 2**20:.0f} MiB<" in svg


def test_words_in_a_verdict_cannot_become_markup() -> None:
    told = lowtide.verdict(climb(20, 20))
    evil = lowtide.Verdict(**{**vars(told), "headline": "<script>", "evidence": ("<b>",)})
    assert "<script>" not in evil._repr_html_()
    assert "&lt;b&gt;" in evil._repr_html_()


def test_the_object_has_every_field_of_the_answer() -> None:
    told = lowtide.verdict(climb(60, 20))
    assert json.loads(json.dumps(told.json))["verdict"] == told.kind
    assert told.disprove
    assert told.evidence


def test_the_curve_of_several_is_their_sum_from_where_all_were_seen() -> None:
    def row(pid: int, size: int) -> dict[str, str]:
        return {"pid": str(pid), "start_ticks": "1", "rss_bytes": str(size)}

    rows = [row(7, 10), row(8, 5), row(7, 20), row(8, 6)]
    assert [float(told["rss_bytes"]) for told in _verdict._together(rows, 2, False)] == [15, 25, 26]
    assert [float(told["rss_bytes"]) for told in _verdict._together(rows, 2, True)] == [0, 10, 11]
    assert _verdict._together(rows[:1], 1, True) == rows[:1]
