// Light, dark, or as the system says. The attribute on <html> is what the styles and the frames follow.
import { store } from "./store";

export type Theme = "system" | "light" | "dark";

const STORAGE = "glovebox.theme";
const wanted = localStorage.getItem(STORAGE);
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
  if (value === "system") localStorage.removeItem(STORAGE);
  else localStorage.setItem(STORAGE, value);
  apply();
});
system.addEventListener("change", apply);
apply();
