// News of a run that goes on: sections are replaced, charts drawn anew at the place the reader is looking at.

import type { Page } from "./data";

function replaceParts(html: string): void {
  const came = new DOMParser().parseFromString(html, "text/html");
  for (const part of document.querySelectorAll<HTMLElement>("[data-part]")) {
    const news = came.querySelector(`[data-part="${part.dataset.part}"]`);
    // A part that somebody is using stays until they are done.
    if (news && !part.contains(document.activeElement)) part.replaceChildren(...news.childNodes);
  }
}

/** Follows a run, if the page says where its news come from. */
export function follow(news: (page: Page) => void): void {
  const from = document.querySelector<HTMLElement>("main[data-events]")?.dataset.events;
  if (!from) return;
  const status = document.getElementById("live");
  const source = new EventSource(from);
  source.addEventListener("page", (event) => {
    const { page, html } = JSON.parse(event.data as string) as { page: Page; html: string };
    replaceParts(html);
    news(page);
    const over = page.about.state !== "running";
    if (status) status.textContent = over ? "The run is over." : "Following the run.";
    if (over) source.close();
  });
  source.addEventListener("error", () => {
    if (status) status.textContent = "Not connected; trying again.";
  });
}

/** Asks for the list again now and then, while nobody is busy with it. */
export function refreshList(): void {
  const main = document.querySelector<HTMLElement>('main[data-live="list"]');
  if (!main) return;
  const form = document.querySelector<HTMLFormElement>("form[data-filters]");
  form?.addEventListener("change", () => form.requestSubmit());
  setInterval(async () => {
    const busy = main.contains(document.activeElement) || main.querySelector("input:checked") !== null;
    if (document.hidden || busy) return;
    const answer = await fetch(location.href).catch(() => null);
    if (!answer?.ok) return;
    const came = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    if (came) main.replaceChildren(...came.childNodes);
  }, 5000);
}
