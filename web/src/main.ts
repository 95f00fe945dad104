// Turns the still pictures of a page into charts, and keeps them so while news comes in.

import "uplot/dist/uPlot.min.css";
import type uPlot from "uplot";
import { mainChart } from "./chart";
import { embedded, type Page } from "./data";
import { layerChart } from "./layers";
import { onTheme } from "./theme";

const charts: { chart: uPlot; into: HTMLElement }[] = [];

function find(kind: string): HTMLElement | null {
  return document.querySelector<HTMLElement>(`[data-chart="${kind}"]`);
}

function keep(chart: uPlot | null, into: HTMLElement): void {
  if (chart) charts.push({ chart, into });
}

function draw(page: Page): void {
  charts.splice(0).forEach(({ chart }) => chart.destroy());
  const main = find("main");
  if (main) keep(mainChart(main, document.querySelector<HTMLElement>('[data-tools="main"]'), page.figure), main);
  const { stacks } = page;
  if (!stacks) return;
  for (const split of ["by_role", "by_kind"] as const) {
    const into = find(split);
    if (into) keep(layerChart(into, stacks.seconds, stacks[split]), into);
  }
}

function fit(): void {
  for (const { chart, into } of charts) chart.setSize({ width: into.clientWidth, height: chart.height });
}

const page = embedded();
if (page) {
  draw(page);
  onTheme(() => draw(page));
  addEventListener("resize", fit);
  addEventListener("beforeprint", fit);
}
