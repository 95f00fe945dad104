// Curves of several runs in one picture.

import uPlot from "uplot";
import { xAxis, yAxis } from "./chart";
import type { Axis } from "./data";
import { colour } from "./theme";
import { place, size } from "./words";
import { wireZoom } from "./zoom";

interface Curve {
  name: string;
  axis: Axis;
  x: number[];
  bytes: number[];
}

/** The curves of the page we stand in. */
export function embeddedCurves(): Curve[] {
  const holder = document.getElementById("lowtide-curves");
  return holder?.textContent ? (JSON.parse(holder.textContent) as Curve[]) : [];
}

export function curveChart(into: HTMLElement, curves: Curve[]): uPlot | null {
  const shown = curves.filter((curve) => curve.x.length > 0);
  if (shown.length === 0) return null;
  into.replaceChildren();
  const axis = shown[0]?.axis ?? "step";
  const whole: [number, number] = [
    Math.min(...shown.map((curve) => curve.x[0] ?? 0)),
    Math.max(...shown.map((curve) => curve.x.at(-1) ?? 1)),
  ];
  const told = document.createElement("p");
  told.className = "told";
  told.textContent = "\u00a0";
  const tools = document.createElement("div");
  tools.className = "tools";
  const chart = new uPlot(
    {
      width: into.clientWidth || 600,
      height: 340,
      padding: [12, 14, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { range: (_u, _low, high) => [0, (high || 1) * 1.05] } },
      series: [
        {},
        ...shown.map((curve, n) => ({
          label: curve.name,
          stroke: colour(`layer${n % 6}`),
          width: 1.8,
          points: { show: false },
          spanGaps: true,
        })),
      ],
      axes: [xAxis(axis), yAxis()],
      hooks: {
        setCursor: [
          (u) => {
            const at = u.cursor.idx;
            if (at == null) return;
            const parts = shown.flatMap((curve, n) => {
              const value = u.data[n + 1]?.[at];
              return value == null ? [] : [`${curve.name} ${size(value)}`];
            });
            told.textContent = `${place(u.data[0][at] ?? 0, axis)}: ${parts.join(", ")}`;
          },
        ],
      },
    },
    uPlot.join(shown.map((curve) => [curve.x, curve.bytes] as uPlot.AlignedData)),
    into,
  );
  into.append(tools, told);
  wireZoom(chart, into, tools, whole, shown.map((curve) => curve.name));
  tools.querySelectorAll<HTMLElement>(".toggle").forEach((button, n) => {
    const key = document.createElement("span");
    key.className = `key layer-key l${n % 6}`;
    button.prepend(key);
  });
  return chart;
}
