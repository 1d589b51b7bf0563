import { effect, signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";

const THEME_KEY = "rkat-theme";
const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

const stored = localStorage.getItem(THEME_KEY);
const theme = signal<Theme>(THEMES.find((one) => one === stored) ?? "auto");

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});

function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "auto";
  localStorage.setItem(THEME_KEY, theme.value);
}

/** The frame of every page: a navigation bar with the theme button, and the content. */
export function Frame(props: {
  home: string;
  label: string;
  nav: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={focusMain}>
        Skip to content
      </button>
      <nav class="nav" aria-label={props.label}>
        <a class="brand" href={props.home}>
          rkat
        </a>
        {props.nav}
        <span class="grow" />
        <button type="button" class="quiet" onClick={nextTheme} title="Switch between system, light and dark theme">
          Theme: {theme.value}
        </button>
        {props.actions}
      </nav>
      <main class="main" id="main" tabIndex={-1}>
        {props.children}
      </main>
    </div>
  );
}

/** A link to #main would change the route, so the skip button moves the focus itself. */
function focusMain(): void {
  document.getElementById("main")?.focus();
}
