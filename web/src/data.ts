// What a page holds as data: the JSON that crates/serve/src/page writes.

export interface Line {
  x: number[];
  low: number[];
  high: number[];
  last: number[];
}

export interface Stretch {
  from: number;
  to: number;
}

export interface Future {
  kind: string;
  predicts: string;
  points: [number, number][];
}

export type Axis = "step" | "seconds" | "sample" | "epoch";

export interface Figure {
  axis: Axis;
  what: string;
  line: Line;
  floor: [number, number][];
  phases: (Stretch & { name: string })[];
  marks: { epochs: { x: number; number: number }[]; evals: Stretch[]; saves: Stretch[] };
  limit: { bytes: number; from: string | null } | null;
  futures: Future[];
  view: { x: [number, number]; y: [number, number] } | null;
}

export interface Layer {
  name: string;
  bytes: number[];
}

export interface Stacks {
  seconds: number[];
  by_role: Layer[];
  by_kind: Layer[];
  living: number[];
}

export interface Page {
  schema: string;
  name: string;
  about: { state: string | null };
  figure: Figure;
  stacks: Stacks | null;
}

/** The data of the page we stand in, if it has any. */
export function embedded(): Page | null {
  const holder = document.getElementById("lowtide-page");
  return holder?.textContent ? (JSON.parse(holder.textContent) as Page) : null;
}
