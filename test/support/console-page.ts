import type { Page } from "playwright-core";
import { expect } from "vitest";

/** Markup, a link that runs, a style that hides, and letters that turn the order around. */
export const HOSTILE = `<img src=x onerror="window.stolen=1"><script>window.stolen=1</script><a href="javascript:window.stolen=1">x</a>\u202Egnp.exe\u2066 \${window.stolen=1} </style></pre>`;

const STEPS_MAX = 150;

/** Presses the tab key until what has this name has the focus, as somebody without a mouse does. */
export async function tabTo(page: Page, name: string): Promise<void> {
  const seen: string[] = [];
  for (let step = 0; step < STEPS_MAX; step += 1) {
    await page.keyboard.press("Tab");
    const focused = String(
      await page.evaluate(
        "(({ activeElement: at }) => at?.getAttribute('aria-label') ?? at?.labels?.[0]?.textContent ?? at?.textContent ?? '')(document)",
      ),
    );
    if (focused.includes(name)) return;
    seen.push(focused.slice(0, 40));
  }
  expect(seen).toContain(name);
}
