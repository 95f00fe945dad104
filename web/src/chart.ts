// The main figure: the curve with its floor, what the job said, the limit, and the futures that still fit.

import uPlot from "uplot";
import type { Axis, Figure, Future } from "./data";
import { colour, faded } from "./theme";
import { duration, place, size, sizeTicks } from "./words";
import { wireZoom } from "./zoom";

const HEIGHT = 360;
/** Steps of time that people count in. */
const ROUND_SECONDS = [0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

function futureColour(future: Future): string {
  return colour(future.kind === "leak" ? "bad" : future.kind === "cache-fill" ? "calm" : "wait");
}

/** The name of each future at its end, as far as it is in sight. */
function nameFutures(u: uPlot, figure: Figure, ratio: number): void {
  const top = u.scales.y?.max ?? 0;
  const right = u.scales.x?.max ?? 0;
  for (const future of figure.futures) {
    const end = future.points.filter(([x, y]) => x <= right && y <= top).at(-1);
    if (!end || future.points.length < 2) continue;
    u.ctx.fillStyle = futureColour(future);
    u.ctx.textAlign = "right";
    u.ctx.fillText(`if ${future.kind.replace("-", " ")}`, u.valToPos(end[0], "x", true) - 6 * ratio, u.valToPos(end[1], "y", true) - 8 * ratio);
  }
}

/** Everything drawn behind and over the curve that is no curve. */
function overlay(figure: Figure): uPlot.Plugin {
  const vertical = (u: uPlot, x: number, stroke: string, dash: number[]) => {
    const at = u.valToPos(x, "x", true);
    if (at < u.bbox.left || at > u.bbox.left + u.bbox.width) return;
    u.ctx.strokeStyle = stroke;
    u.ctx.setLineDash(dash);
    u.ctx.beginPath();
    u.ctx.moveTo(at, u.bbox.top);
    u.ctx.lineTo(at, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
  };
  const box = (u: uPlot, from: number, to: number, fill: string, top: number, height: number) => {
    const left = Math.max(u.valToPos(from, "x", true), u.bbox.left);
    const right = Math.min(Math.max(u.valToPos(to, "x", true), left + 1.5), u.bbox.left + u.bbox.width);
    if (right < u.bbox.left || left > u.bbox.left + u.bbox.width) return;
    u.ctx.fillStyle = fill;
    u.ctx.fillRect(left, top, right - left, height);
  };
  const behind = (u: uPlot) => {
    const { top, height } = u.bbox;
    u.ctx.save();
    for (const eval_ of figure.marks.evals) box(u, eval_.from, eval_.to, faded(colour("wait"), 0.22), top, height);
    for (const save of figure.marks.saves) box(u, save.from, save.to, colour("good"), top + height - 9, 9);
    for (const epoch of figure.marks.epochs) vertical(u, epoch.x, faded(colour("soft"), 0.55), [3, 5]);
    u.ctx.restore();
  };
  const before = (u: uPlot) => {
    const ratio = devicePixelRatio;
    u.ctx.save();
    u.ctx.setLineDash([]);
    u.ctx.lineWidth = ratio;
    u.ctx.font = `${12 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
    for (const phase of figure.phases) {
      const left = Math.max(u.valToPos(phase.from, "x", true), u.bbox.left);
      const right = Math.min(u.valToPos(phase.to, "x", true), u.bbox.left + u.bbox.width);
      if (right - left < 12) continue;
      const y = u.bbox.top - 9 * ratio;
      u.ctx.strokeStyle = u.ctx.fillStyle = colour("soft");
      u.ctx.beginPath();
      u.ctx.moveTo(left + 2, y);
      u.ctx.lineTo(right - 2, y);
      u.ctx.moveTo(right - 2, y - 4 * ratio);
      u.ctx.lineTo(right - 2, y + 4 * ratio);
      u.ctx.stroke();
      if (right - left > 70 * ratio) {
        u.ctx.textAlign = "center";
        u.ctx.fillText(phase.name, (left + right) / 2, y - 5 * ratio);
      }
    }
    nameFutures(u, figure, ratio);
    const limit = figure.limit?.bytes;
    if (limit !== undefined && limit <= (u.scales.y?.max ?? 0) && limit >= (u.scales.y?.min ?? 0)) {
      const at = u.valToPos(limit, "y", true);
      u.ctx.strokeStyle = u.ctx.fillStyle = colour("bad");
      u.ctx.lineWidth = 1.5 * ratio;
      u.ctx.beginPath();
      u.ctx.moveTo(u.bbox.left, at);
      u.ctx.lineTo(u.bbox.left + u.bbox.width, at);
      u.ctx.stroke();
      u.ctx.textAlign = "left";
      u.ctx.fillText(`limit ${size(limit)}`, u.bbox.left + 6 * ratio, at - 5 * ratio);
    }
    u.ctx.restore();
  };
  return { hooks: { drawClear: behind, draw: before } };
}

/** The value of a series at a place, on the straight line between its neighbours where it has no point of its own. */
function valueAt(u: uPlot, n: number, at: number): number | null {
  const [xs, ys] = [u.data[0], u.data[n] ?? []];
  if (ys[at] != null) return ys[at] as number;
  let [left, right] = [at, at];
  while (left >= 0 && ys[left] == null) left--;
  while (right < ys.length && ys[right] == null) right++;
  const [a, b] = [ys[left], ys[right]];
  if (a == null || b == null) return null;
  const share = ((xs[at] ?? 0) - (xs[left] ?? 0)) / ((xs[right] ?? 1) - (xs[left] ?? 0));
  return a + share * (b - a);
}

/** A box that follows the pointer. */
function tooltip(axis: Axis): uPlot.Plugin {
  const box = document.createElement("div");
  box.className = "tip";
  box.hidden = true;
  return {
    hooks: {
      init: (u) => void u.over.append(box),
      setCursor: (u) => {
        const at = u.cursor.idx;
        if (at == null || u.cursor.left == null || u.cursor.left < 0) {
          box.hidden = true;
          return;
        }
        const lines: string[] = [];
        u.series.forEach((series, n) => {
          const value = n && series.show ? valueAt(u, n, at) : null;
          if (value == null || !series.label) return;
          const line = `${series.label}: ${size(value)}`;
          // The range is told only where it is one.
          if (n > 2 || size(value) !== size(u.data[3]?.[at] ?? value)) lines.push(line);
        });
        const x = u.data[0]?.[at];
        box.textContent = [x == null ? "" : place(x, axis), ...lines].join("\n");
        box.hidden = lines.length === 0;
        const left = u.cursor.left;
        const room = u.over.clientWidth;
        box.style.left = `${left > room / 2 ? left - box.offsetWidth - 14 : left + 14}px`;
        box.style.top = "8px";
      },
    },
  };
}

export function xAxis(axis: Axis): uPlot.Axis {
  return {
    stroke: colour("soft"),
    grid: { show: false },
    ticks: { stroke: colour("line"), size: 5 },
    font: "12px system-ui",
    size: 34,
    label: axis === "seconds" ? "time since the start" : axis,
    labelFont: "12px system-ui",
    labelSize: 18,
    space: 80,
    ...(axis === "seconds" ? { incrs: ROUND_SECONDS } : {}),
    values: (_u, ticks) => ticks.map((x) => (axis === "seconds" ? duration(x) : String(x))),
  };
}

export function yAxis(): uPlot.Axis {
  return {
    stroke: colour("soft"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui",
    size: 76,
    splits: (u, _axis, low, high) => sizeTicks(low, high, u.bbox.height / devicePixelRatio),
    values: (_u, ticks) => ticks.map(size),
  };
}

/** Curve, floor and futures over one x. */
function table(figure: Figure): uPlot.AlignedData {
  const { line } = figure;
  const columns = (points: [number, number][]): uPlot.AlignedData => [points.map((p) => p[0]), points.map((p) => p[1])];
  const tables: uPlot.AlignedData[] = [[line.x, line.high, line.low, line.last], columns(figure.floor)];
  for (const future of figure.futures) tables.push(columns(future.points));
  return uPlot.join(tables);
}

function series(figure: Figure): uPlot.Series[] {
  const sea = colour("sea");
  const points = { show: figure.line.x.length < 40, size: 5, fill: sea };
  const quiet: uPlot.Series = { stroke: "transparent", points: { show: false }, spanGaps: true };
  return [
    {},
    { ...quiet, label: "highest", stroke: faded(sea, 0.5), width: 1 },
    { ...quiet, label: "lowest" },
    { label: "memory", stroke: sea, width: 2.4, points, spanGaps: true },
    { label: "floor", stroke: colour("ink"), width: 1.6, dash: [1, 7], cap: "round", points: { show: false }, spanGaps: true },
    ...figure.futures.map((future) => ({
      label: `if ${future.kind.replace("-", " ")}`,
      stroke: futureColour(future),
      width: 1.7,
      dash: [8, 6],
      points: { show: false },
      spanGaps: true,
    })),
  ];
}

/** Draws the figure into `into` and gives back what can be shown or hidden. */
export function mainChart(into: HTMLElement, tools: HTMLElement | null, figure: Figure): uPlot | null {
  if (figure.line.x.length === 0 || !figure.view) return null;
  const view = figure.view;
  into.replaceChildren();
  const chart = new uPlot(
    {
      width: into.clientWidth || 600,
      height: HEIGHT,
      padding: [30, 14, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: true, y: false }, points: { size: 7 } },
      scales: {
        x: { time: false, range: (_u, low, high) => (low === high ? [low - 0.5, low + 0.5] : [low, high]) },
        y: { range: () => view.y },
      },
      bands: [{ series: [1, 2], fill: faded(colour("sea"), 0.2) }],
      series: series(figure),
      axes: [xAxis(figure.axis), yAxis()],
      plugins: [overlay(figure), tooltip(figure.axis)],
    },
    table(figure),
    into,
  );
  chart.setScale("x", { min: view.x[0], max: view.x[1] });
  wireZoom(chart, into, tools, view.x, ["memory", "floor", ...figure.futures.map((f) => `if ${f.kind.replace("-", " ")}`)]);
  return chart;
}
