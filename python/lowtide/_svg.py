"""Draws a memory curve as SVG text: for notebooks, with nothing to install."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from lowtide._memory import size

_WIDTH, _HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 12, 12, 34
# More points than pixels draw the same line: each column keeps its lowest and highest.
_COLUMNS = 500


class Line(NamedTuple):
    """A curve: x in its own unit, y in bytes."""

    x: Sequence[float]
    y: Sequence[float]
    x_kind: str = "step"


def draw(line: Line, settled_at: float | None = None, limit: float | None = None) -> str:
    """The curve, with a dashed line where it settled and one at the limit where that is in sight."""
    points = _thin([(x, y) for x, y in zip(line.x, line.y) if math.isfinite(x) and math.isfinite(y)])
    if len(points) < 2:
        return ""
    highest = max(y for _, y in points)
    top = limit if limit is not None and highest < limit <= 2 * highest else highest
    frame = _Frame(points[0][0], points[-1][0], top)
    path = " ".join(f"{'M' if n == 0 else 'L'}{frame.x(x):.1f},{frame.y(y):.1f}" for n, (x, y) in enumerate(points))
    parts = [*_axes(frame, line.x_kind), f'<path d="{path}" fill="none" stroke="#1f77b4" stroke-width="1.6"/>']
    if settled_at is not None and frame.first < settled_at < frame.last:
        at = frame.x(settled_at)
        parts.append(_dashed(at, _TOP, at, _HEIGHT - _BOTTOM))
        parts.append(_text(at + 4, _TOP + 10, f"settled at {line.x_kind} {settled_at:.4g}", "start"))
    if limit is not None and limit <= top:
        parts.append(_dashed(_LEFT, frame.y(limit), _WIDTH - _RIGHT, frame.y(limit)))
        parts.append(_text(_WIDTH - _RIGHT, frame.y(limit) + 12, f"limit {size(limit)}", "end"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="sans-serif" font-size="11" fill="currentColor">{"".join(parts)}</svg>'
    )


class _Frame:
    """Where a value lies on the drawing. Memory begins at 0: a cut axis makes every curve look like a leak."""

    def __init__(self, first: float, last: float, top: float) -> None:
        self.first, self.last, self.top = first, last, top or 1.0

    def x(self, value: float) -> float:
        """Pixels from the left."""
        share = (value - self.first) / ((self.last - self.first) or 1.0)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return _HEIGHT - _BOTTOM - value / (self.top * 1.05) * (_HEIGHT - _TOP - _BOTTOM)


def _axes(frame: _Frame, x_kind: str) -> list[str]:
    parts = []
    for share in (0.0, 0.5, 1.0):
        value = frame.top * share
        at = frame.y(value)
        parts.append(f'<path d="M{_LEFT},{at:.1f}H{_WIDTH - _RIGHT}" stroke="#8884" fill="none"/>')
        parts.append(_text(_LEFT - 6, at + 4, size(value), "end"))
        along = frame.first + (frame.last - frame.first) * share
        anchor = {0.0: "start", 0.5: "middle", 1.0: "end"}[share]
        parts.append(_text(frame.x(along), _HEIGHT - _BOTTOM + 15, f"{along:.4g}", anchor))
    parts.append(_text((_LEFT + _WIDTH) / 2, _HEIGHT - 4, x_kind, "middle"))
    return parts


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _dashed(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f},{y1:.1f}L{x2:.1f},{y2:.1f}" stroke="#d62728" stroke-dasharray="4 3" fill="none"/>'


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    points.sort(key=lambda point: point[0])
    each = len(points) // _COLUMNS
    if each < 3:
        return points
    kept = []
    for start in range(0, len(points), each):
        column = points[start : start + each]
        ends = {min(column, key=lambda point: point[1]), max(column, key=lambda point: point[1])}
        kept += sorted(ends)
    return kept
