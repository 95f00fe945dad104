// Zoom by drag, wheel, keys and buttons; toggles for what is drawn. Keys and buttons do all that a mouse does.

import type uPlot from "uplot";

const STEP = 0.6;

function zoom(chart: uPlot, whole: [number, number], factor: number, shift: number): void {
  const low = chart.scales.x?.min ?? whole[0];
  const high = chart.scales.x?.max ?? whole[1];
  const middle = (low + high) / 2 + shift * (high - low);
  const half = Math.min(((high - low) / 2) * factor, (whole[1] - whole[0]) / 2);
  const centre = Math.min(Math.max(middle, whole[0] + half), whole[1] - half);
  chart.setScale("x", { min: centre - half, max: centre + half });
}

function button(text: string, label: string, act: () => void): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.setAttribute("aria-label", label);
  made.title = label;
  made.addEventListener("click", act);
  return made;
}

function toggles(chart: uPlot, names: string[]): HTMLElement[] {
  return names.flatMap((name) => {
    const at = chart.series.findIndex((series) => series.label === name);
    if (at < 0) return [];
    const made = button(name, `show or hide: ${name}`, () => {
      const show = !chart.series[at]?.show;
      chart.setSeries(at, { show });
      made.setAttribute("aria-pressed", String(show));
    });
    made.className = "toggle";
    made.setAttribute("aria-pressed", "true");
    return [made];
  });
}

/** Gives a chart its zoom; `names` are the series that can be hidden. */
export function wireZoom(
  chart: uPlot,
  into: HTMLElement,
  tools: HTMLElement | null,
  whole: [number, number],
  names: string[],
): void {
  const reset = () => chart.setScale("x", { min: whole[0], max: whole[1] });
  const acts: Record<string, () => void> = {
    "+": () => zoom(chart, whole, STEP, 0),
    "=": () => zoom(chart, whole, STEP, 0),
    "-": () => zoom(chart, whole, 1 / STEP, 0),
    ArrowLeft: () => zoom(chart, whole, 1, -0.2),
    ArrowRight: () => zoom(chart, whole, 1, 0.2),
    "0": reset,
    Escape: reset,
  };
  // What is in sight, for those who can't see it and for tests.
  const tell = () => {
    into.dataset.view = [chart.scales.x?.min ?? whole[0], chart.scales.x?.max ?? whole[1]].join(" ");
  };
  (chart.hooks.setScale ??= []).push(tell);
  tell();
  into.tabIndex = 0;
  into.setAttribute("role", "application");
  into.setAttribute("aria-label", "chart; plus and minus zoom, arrows move, 0 shows all");
  into.onkeydown = (event) => {
    const act = acts[event.key];
    if (act) {
      act();
      event.preventDefault();
    }
  };
  chart.over.ondblclick = reset;
  chart.over.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      zoom(chart, whole, event.deltaY < 0 ? STEP : 1 / STEP, 0);
    },
    { passive: false },
  );
  tools?.replaceChildren(
    ...toggles(chart, names),
    button("\u2212", "zoom out", acts["-"] as () => void),
    button("+", "zoom in", acts["+"] as () => void),
    button("all", "show all", reset),
  );
}
