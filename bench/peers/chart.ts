import type { Chart } from "./result.ts";

const WIDTH = 720;
const LABELS = 220;
const VALUES = 70;
const ROW = 24;
const BAR = 15;
const HEAD = 34;

/** Bars on a line each, readable on light and on dark pages. Ours has the colour, the floor is the lightest. */
export function toSvg({ title, bars }: Chart): string {
  const max = Math.max(...bars.map(({ value }) => value));
  const height = HEAD + bars.length * ROW + 8;
  const lines = bars.map(({ label, value }, at) => {
    const y = HEAD + at * ROW;
    const width = Math.max(1, (value / max) * (WIDTH - LABELS - VALUES));
    const kind = label.startsWith("rkat") ? "ours" : label.startsWith("bare fetch") ? "floor" : "other";
    return [
      `<text x="${LABELS - 8}" y="${y + BAR - 3}" text-anchor="end">${label}</text>`,
      `<rect class="${kind}" x="${LABELS}" y="${y}" width="${width.toFixed(1)}" height="${BAR}" rx="2"/>`,
      `<text x="${(LABELS + width + 6).toFixed(1)}" y="${y + BAR - 3}">${shown(value)}</text>`,
    ].join("");
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${title}">`,
    "<style>.page{fill:#fff}text{font:13px system-ui,sans-serif;fill:#333}.title{font-weight:600}.ours{fill:#1a7f5a}.other{fill:#7a8aa0}.floor{fill:#b9c2cf}",
    "@media(prefers-color-scheme:dark){.page{fill:#1b1b1f}text{fill:#ddd}.ours{fill:#3fbf8f}.other{fill:#8494ab}.floor{fill:#4d596b}}</style>",
    // A page may be dark where the system is not.
    `<rect class="page" width="${WIDTH}" height="${height}" rx="6"/>`,
    `<text class="title" x="8" y="18">${title}</text>`,
    ...lines,
    "</svg>",
    "",
  ].join("\n");
}

function shown(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
}
