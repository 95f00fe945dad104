// Colours come from the style sheet alone, so that light, dark and print are told in one place.

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}

/** The same colour, thinner. */
export function faded(value: string, alpha: number): string {
  const hex = /^#([0-9a-f]{6})$/i.exec(value)?.[1];
  if (!hex) return value;
  const part = (at: number) => parseInt(hex.slice(at, at + 2), 16);
  return `rgba(${part(0)}, ${part(2)}, ${part(4)}, ${alpha})`;
}

/** Calls back when the reader's system turns light or dark. */
export function onTheme(changed: () => void): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
