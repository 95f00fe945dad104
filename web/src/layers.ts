// Memory over time in layers, by role and by kind. Layers are added up from the bottom; a hidden one leaves the sum.

import uPlot from "uplot";
import type { Layer } from "./data";
import { xAxis, yAxis } from "./chart";
import { colour } from "./theme";
import { duration, size } from "./words";

const HEIGHT = 256;

function summed(seconds: number[], layers: Layer[], shown: boolean[]): uPlot.AlignedData {
  const sum = new Array<number>(seconds.length).fill(0);
  const columns = layers.map((layer, n) => {
    if (shown[n]) layer.bytes.forEach((bytes, at) => (sum[at] = (sum[at] ?? 0) + bytes));
    return sum.slice();
  });
  return [seconds, ...columns.reverse()];
}

/** Draws layers into `into`, with a legend whose entries hide and show them. */
export function layerChart(into: HTMLElement, seconds: number[], layers: Layer[]): uPlot | null {
  if (layers.length === 0) return null;
  into.replaceChildren();
  const shown = layers.map(() => true);
  // The highest sum is drawn first, so that every layer below covers its part.
  const series = layers
    .map((layer, n): uPlot.Series => {
      const own = colour(`layer${n % 6}`);
      return { label: layer.name, stroke: own, width: 0.5, fill: own, points: { show: false } };
    })
    .reverse();
  const told = document.createElement("p");
  told.className = "told";
  const names = document.createElement("div");
  names.className = "toggles";
  const chart = new uPlot(
    {
      width: into.clientWidth || 480,
      height: HEIGHT,
      padding: [8, 30, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: true, y: false }, sync: { key: "layers" }, points: { show: false } },
      scales: { x: { time: false }, y: { range: (_u, _low, high) => [0, (high || 1) * 1.05] } },
      series: [{}, ...series],
      axes: [xAxis("seconds"), yAxis()],
      hooks: {
        setCursor: [
          (u) => {
            const at = u.cursor.idx;
            const parts = layers.filter((_, n) => shown[n]).map((layer) => `${layer.name} ${size(layer.bytes[at ?? 0] ?? 0)}`);
            told.textContent = at == null ? "\u00a0" : `${duration(seconds[at] ?? 0)}: ${parts.join(", ")}`;
          },
        ],
      },
    },
    summed(seconds, layers, shown),
    into,
  );
  layers.forEach((layer, n) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = `toggle layer-key-${n % 6}`;
    button.setAttribute("aria-pressed", "true");
    const key = document.createElement("span");
    key.className = `key layer-key l${n % 6}`;
    button.append(key, layer.name);
    button.addEventListener("click", () => {
      shown[n] = !shown[n];
      button.setAttribute("aria-pressed", String(shown[n]));
      chart.setSeries(layers.length - n, { show: shown[n] ?? true });
      chart.setData(summed(seconds, layers, shown));
    });
    names.append(button);
  });
  told.textContent = "\u00a0";
  into.append(names, told);
  return chart;
}
