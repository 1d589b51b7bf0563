import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { RuntimeError } from "../../contract/error.ts";
import type { KeptElement, KeptSession } from "../../contract/kept-session.ts";
import type { SimulationElement } from "../../contract/simulation.ts";
import { builtConsoleFolder, consoleNotBuilt } from "../wire/console-folder.ts";

const SESSION: KeptElement = "kept-session";

/** What would end an element that holds a script or a style, or begin a comment in one. */
const ENDS = /<\/(?:script|style)|<!--/i;

/** A session as one page. */
export function sessionPage(session: KeptSession, folder = builtConsoleFolder()): Promise<string> {
  return keptPage(SESSION, session, folder);
}

/** The console's own page, with its files and a record in it instead of beside it. */
export async function keptPage(
  element: KeptElement | SimulationElement,
  record: object,
  folder = builtConsoleFolder(),
): Promise<string> {
  const page = await readFile(join(folder, "index.html"), "utf8").catch(() => {
    throw consoleNotBuilt();
  });
  const fileOf = (pattern: RegExp): Promise<Buffer> => readFile(join(folder, pattern.exec(page)?.[1] ?? ""));
  const icon = (await fileOf(ICON)).toString("base64");
  const style = inline(await fileOf(STYLE));
  const script = inline(await fileOf(SCRIPT));
  const policy = policyOf({ script, style });
  // By functions: what is put in may hold the signs that mean something in a replacement.
  return page
    .replace(CHARSET, (found) => `${found}\n    <meta http-equiv="content-security-policy" content="${policy}" />`)
    .replace(ICON, () => `<link rel="icon" href="data:image/svg+xml;base64,${icon}" />`)
    .replace(STYLE, () => `<style>${style}</style>`)
    .replace(SCRIPT, () => `<script type="module">${script}</script>`)
    .replace(
      APP,
      (found) => `${found}\n    <script type="application/json" id="${element}">${recordOf(record)}</script>`,
    );
}

const CHARSET = /<meta charset="utf-8" \/>/;
const ICON = /<link rel="icon" href="\.\/([^"]+)" \/>/;
const STYLE = /<link rel="stylesheet" href="\.\/([^"]+)" \/>/;
const SCRIPT = /<script type="module" src="\.\/([^"]+)"><\/script>/;
const APP = /<div id="app">[^\n]*<\/div>/;

function inline(bytes: Buffer): string {
  const text = bytes.toString("utf8");
  if (!ENDS.test(text)) return text;
  throw new RuntimeError("INTERNAL_ERROR", "the console's files cannot stand in a page; run npm run build");
}

/** This script and this style and nothing else: no request, and nothing that a session says, whatever it is. */
function policyOf({ script, style }: { readonly script: string; readonly style: string }): string {
  return [
    "default-src 'none'",
    `script-src '${hashOf(script)}'`,
    `style-src '${hashOf(style)}'`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
  ].join("; ");
}

function hashOf(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

/** JSON in which no sign can end the element around it; halves of letters are written as escapes by JSON itself. */
function recordOf(record: object): string {
  const escaped = (sign: string): string => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(record).replace(/[<>&\u2028\u2029]/g, escaped);
}
