// Light, dark, or as the system says. The attribute on <html> is what the styles and the frames follow.
import { store } from "./store";

export type Theme = "system" | "light" | "dark";

const STORAGE = "glovebox.theme";

function stored(): string | null {
  try {
    return localStorage.getItem(STORAGE);
  } catch {
    return null; // a browser that lets pages store nothing
  }
}

const wanted = stored();
export const theme = store<Theme>(wanted === "light" || wanted === "dark" ? wanted : "system");
const system = window.matchMedia("(prefers-color-scheme: dark)");

const isDark = (): boolean => theme.get() === "dark" || (theme.get() === "system" && system.matches);

/** What is shown: frames are told, because they cannot see our styles. */
export const dark = store(isDark());

function apply(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  dark.set(isDark());
}

theme.watch((value) => {
  apply();
  try {
    if (value === "system") localStorage.removeItem(STORAGE);
    else localStorage.setItem(STORAGE, value);
  } catch {
    // only convenience
  }
});
system.addEventListener("change", apply);
apply();
