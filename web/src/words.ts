// Numbers as people read them: the same rules as lowtide's text.

import type { Axis } from "./data";

const STEPS: [string, number][] = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
];

/** A size with three digits that count. */
export function size(bytes: number): string {
  const sign = bytes < 0 ? "-" : "";
  const value = Math.abs(bytes);
  const [symbol, unit] = STEPS.find(([, unit]) => value >= unit * 0.9995) ?? ["B", 1];
  const shown = value / unit;
  const digits = symbol === "B" || shown >= 100 ? 0 : shown >= 10 ? 1 : 2;
  return `${sign}${shown.toFixed(digits)} ${symbol}`;
}

/** A length of time. */
export function duration(seconds: number): string {
  const whole = Math.round(Math.max(seconds, 0));
  const [days, hours, minutes, rest] = [
    Math.floor(whole / 86400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
    whole % 60,
  ];
  if (days) return hours ? `${days} d ${hours} h` : `${days} d`;
  if (hours) return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
  if (minutes) return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
  return `${seconds < 10 ? Number(seconds.toFixed(1)) : rest} s`;
}

/** A place on x. */
export function place(x: number, axis: Axis): string {
  if (axis === "seconds") return duration(x);
  return `${axis} ${Number(x.toFixed(axis === "epoch" ? 2 : 1))}`;
}

/** Ticks of sizes that are round in binary units. */
export function sizeTicks(low: number, high: number, room: number): number[] {
  const unit = (STEPS.find(([, unit]) => high >= unit) ?? ["B", 1])[1];
  const raw = (high - low) / unit / Math.max(2, Math.floor(room / 44));
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) ?? raw) * unit;
  const ticks: number[] = [];
  for (let n = Math.ceil(low / step); n * step <= high && ticks.length < 50; n++) ticks.push(n * step);
  return ticks;
}
