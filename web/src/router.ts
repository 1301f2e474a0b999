// Addresses of the views. The server gives the same shell for all of them.
import { store, useStore } from "./store";

export interface Place {
  path: string; // "/chat/6f…"
  query: URLSearchParams;
}

const here = (): Place => ({ path: location.pathname, query: new URLSearchParams(location.search) });

export const place = store<Place>(here());

window.addEventListener("popstate", () => place.set(here()));

export function navigate(to: string, how: { replace?: boolean } = {}): void {
  if (to === location.pathname + location.search) return;
  if (how.replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  place.set(here());
}

export const usePlace = (): Place => useStore(place);

/** For onClick of links: leaves new tabs and downloads to the browser. */
export function follow(event: MouseEvent): void {
  const link = (event.currentTarget as HTMLElement).closest("a");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || link.target) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
}
