"""`lowtide.verdict`: asks the program what a curve or a recording is, and shows the answer.

The judgement is the program's own; here is only the asking, a plain object for the answer, and its look in a notebook.
"""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Union

from lowtide import _svg
from lowtide._binary import LowtideError, call

Curve = Mapping[str, Any]
Source = Union[str, "os.PathLike[str]", Curve, Sequence[float]]


@dataclass(frozen=True, repr=False)
class Outcome:
    """Whether it fits: `is_` is fits, tight, exceeds or unknown."""

    is_: str
    needs_bytes: float | None
    limit_bytes: float | None
    limit_from: str | None

    def __repr__(self) -> str:
        return self.is_


@dataclass(frozen=True, repr=False)
class Verdict:
    """What a memory curve is, with the evidence. `json` is the whole answer (docs/verdict.schema.json)."""

    kind: str
    group: str
    confidence: float
    headline: str
    outcome: Outcome
    bytes_per_example: float | None
    settled_at_step: float | None
    evidence: tuple[str, ...]
    advice: tuple[str, ...]
    disprove: str
    json: dict[str, Any] = field(compare=False)
    line: _svg.Line | None = field(default=None, compare=False)

    @property
    def is_leak(self) -> bool:
        """Whether memory rises without a bound in sight."""
        return self.group == "leak"

    def __repr__(self) -> str:
        return self.headline

    def _repr_svg_(self) -> str | None:
        if self.line is None:
            return None
        settled = self.json.get("settled_at") or {}
        at = settled.get("seconds" if self.line.x_kind == "seconds" else "step")
        return _svg.draw(self.line, at, self.outcome.limit_bytes) or None

    def _repr_html_(self) -> str:
        rows = [("Evidence", self.evidence), ("Do this", self.advice), ("To be sure", (self.disprove,))]
        cells = "".join(
            f'<tr><td style="vertical-align:top">{name}</td><td style="text-align:left">'
            f"{'<br>'.join(escape(line) for line in lines)}</td></tr>"
            for name, lines in rows
            if any(lines)
        )
        head = self.headline[:1].upper() + self.headline[1:]
        return f"<div><b>{escape(head)}</b><br>{self._repr_svg_() or ''}<table>{cells}</table></div>"


def verdict(source: Source, **about: float | str) -> Verdict:
    """What is it: a leak, a cache that fills, a warm-up; and does it fit?

    `source` is a recording or any file `lowtide explain` reads, a curve as a dict (`x`, `y`, `unit`, `x_kind`,
    `context`: docs/python.md), a plain list of bytes per step, or what `lowtide.watch` returned.
    `about` is what the source does not say: examples=663, batch=2, accum=4, limit="32GB", epochs=, epoch_steps=,
    world_size=, unit=, x=, y=.
    """
    if isinstance(source, Mapping):
        return _of_curve(source, about)
    if isinstance(source, (str, os.PathLike)):
        return _of_file(os.fspath(source), about)
    return _of_curve({"x_kind": "step", "y": list(source), "unit": "bytes"}, about)


def flags(about: Mapping[str, int | float | str | None]) -> list[str]:
    """Keyword arguments as flags of the program."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in about.items() if value is not None]


def _of_curve(curve: Curve, about: Mapping[str, int | float | str]) -> Verdict:
    y = [float(value) for value in curve["y"]]
    x = [float(value) for value in curve.get("x") or range(1, len(y) + 1)]
    given = {**curve, "x": x, "y": y}
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        path = os.path.join(folder, "curve.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(given, file, default=float)
        told = _explain(path, about)
    scale = _scale(str(curve.get("unit", "bytes")))
    line = _svg.Line(x, [value * scale for value in y], str(curve.get("x_kind", "step"))) if scale else None
    return _read(told, line)


def _of_file(path: str, about: Mapping[str, int | float | str]) -> Verdict:
    told = _explain(path, about)
    return _read(told, _line_of(path, told) if path.endswith(".tide") else None)


def _explain(path: str, about: Mapping[str, int | float | str]) -> dict[str, Any]:
    done = call(["explain", "--format", "json", *flags(about), "--", path])
    lines = done.stdout.splitlines()
    if not lines:
        raise LowtideError(done.stderr.strip() or f"lowtide says nothing of {path}")
    told: dict[str, Any] = json.loads(lines[0])
    return told


def _read(told: dict[str, Any], line: _svg.Line | None) -> Verdict:
    outcome = told["outcome"]
    return Verdict(
        kind=told["verdict"],
        group=told["group"],
        confidence=told["confidence"],
        headline=told["headline"],
        outcome=Outcome(outcome["is"], outcome["needs_bytes"], outcome["limit_bytes"], outcome["limit_from"]),
        bytes_per_example=told["bytes_per_example"],
        settled_at_step=(told["settled_at"] or {}).get("step"),
        evidence=tuple(told["evidence"]),
        advice=tuple(told["advice"]),
        disprove=told["disprove"],
        json=told,
        line=line,
    )


def _scale(unit: str) -> float | None:
    powers = {"k": 1, "m": 2, "g": 3, "t": 4}
    word = unit.strip().lower()
    if word in ("b", "byte", "bytes", ""):
        return 1.0
    power = powers.get(word[0])
    if power is None or word[1:] not in ("b", "ib"):
        return None
    return float((1024 if word.endswith("ib") else 1000) ** power)


def parse_size(size: float | str) -> float:
    """Bytes of a size as the program takes it: 500MB, 2GiB, or a plain number."""
    if not isinstance(size, str):
        return float(size)
    number = size.strip().rstrip("bBiIkKmMgGtT").strip()
    scale = _scale(size.strip()[len(number) :].strip())
    try:
        if scale is not None:
            return float(number) * scale
    except ValueError:
        pass
    raise ValueError(f"`{size}` is not a size; write it like 500MB or 2GiB")


def _together(rows: list[dict[str, str]], count: int, forked: bool) -> list[dict[str, str]]:
    """Rows of several processes as rows of their sum, from where all of them were seen; of one they stay as they are.

    Forked ones begin with the pages of their parent: those are not theirs, and left out.
    """
    if count == 1:
        return rows
    first: dict[tuple[str, str], float] = {}
    newest: dict[tuple[str, str], float] = {}
    summed = []
    for row in rows:
        key, held = (row["pid"], row["start_ticks"]), float(row["rss_bytes"])
        newest[key] = held - first.setdefault(key, held if forked else 0.0)
        if len(newest) == count:
            summed.append({**row, "rss_bytes": str(sum(newest.values()))})
    return summed


def _line_of(path: str, told: Mapping[str, Any]) -> _svg.Line | None:
    """The curve of the process the verdict is about, or of several together; without it the answer is shown without a drawing."""
    try:
        text = call(["export", path, "--to", "csv"]).stdout
    except LowtideError:
        return None
    process = told.get("process") or {}
    keys = [process.get("key") or {}, *process.get("with", [])]
    of = {(str(key.get("pid")), str(key.get("start_ticks"))) for key in keys}
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row.get("rss_bytes")]
    own = [row for row in rows if (row["pid"], row["start_ticks"]) in of]
    own = _together(own, len(of), process.get("role") == "loader-worker")
    stepped = [row for row in own if row.get("step")]
    x_kind, chosen = ("step", stepped) if len(stepped) > 1 else ("seconds", own)
    column = "step" if x_kind == "step" else "t_s"
    return _svg.Line([float(row[column]) for row in chosen], [float(row["rss_bytes"]) for row in chosen], x_kind)
