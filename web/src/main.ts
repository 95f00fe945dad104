// Turns the still pictures of a page into charts, and keeps them so while news comes in.

import "uplot/dist/uPlot.min.css";
import type uPlot from "uplot";
import { mainChart } from "./chart";
import { curveChart, embeddedCurves } from "./curves";
import { embedded, type Page } from "./data";
import { layerChart } from "./layers";
import { follow, refreshList } from "./live";
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

let page = embedded();
if (page) {
  draw(page);
  follow((news) => {
    const looking = zoomed();
    page = news;
    draw(news);
    const chart = charts.find(({ into }) => into.dataset.chart === "main")?.chart;
    if (looking) chart?.setScale("x", { min: looking[0], max: looking[1] });
  });
}

/** What the reader looks at, if that is not all. */
function zoomed(): [number, number] | null {
  const main = charts.find(({ into }) => into.dataset.chart === "main")?.chart;
  const [low, high, all] = [main?.scales.x?.min, main?.scales.x?.max, page?.figure.view?.x];
  if (low == null || high == null || !all) return null;
  return low > all[0] || high < all[1] ? [low, high] : null;
}

function drawCurves(): void {
  const into = find("curves");
  const curves = embeddedCurves();
  if (into && curves.length) keep(curveChart(into, curves), into);
}

drawCurves();
refreshList();
onTheme(() => (page ? draw(page) : drawCurves()));
addEventListener("resize", fit);
addEventListener("beforeprint", fit);
