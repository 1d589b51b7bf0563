import { effect, signal } from "@preact/signals";

const KEY = "rkat-theme";
const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

const kept = localStorage.getItem(KEY);
export const theme = signal<Theme>(THEMES.find((one) => one === kept) ?? "auto");

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "auto";
  localStorage.setItem(KEY, theme.value);
}
