import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { RuntimeError } from "@rkat/core/contract/error";
import type { KeptElement, SessionPage } from "@rkat/core/contract/wire/session-page";
import type { SimulationElement } from "@rkat/core/contract/wire/simulation";
import { builtConsoleFolder, consoleNotBuilt } from "@rkat/server/http/console-folder";
import type { View } from "./command-row.ts";
import { refuseExisting, writeFileWhole } from "./commands/output-file.ts";
import { CONTEXTS_MAX, exportPage } from "./export-page.ts";
import { bytesText, counted, type Io, writeJson } from "./io.ts";
import type { Opened } from "./open-runtime.ts";

const SESSION: KeptElement = "kept-session";

/** Text that would end a script or style element, or begin a comment in one. */
const ENDS = /<\/(?:script|style)|<!--/i;

/** A session as one page. */
function sessionPage(session: SessionPage, folder = builtConsoleFolder()): Promise<string> {
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
  // Functions, since the inserted text may contain replacement patterns such as $&.
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
  throw new RuntimeError("INTERNAL_ERROR", "the console's files cannot be embedded in a page; run npm run build");
}

/** Allows this script and this style only: no requests, and no script from the session's content. */
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

/** Browsers do not open larger pages in reasonable time. */
const PAGE_BYTES_MAX = 100 * 1024 * 1024;

export interface PageFlags {
  readonly html: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** Writes a session as one self-contained page. */
export async function writeSessionPage(
  { io, opened: { runtime }, id: session_id }: View,
  { html, force = false, json }: PageFlags,
): Promise<void> {
  const path = resolve(io.cwd, html);
  // Checked before the session is read.
  await refuseExisting(path, { shown: html, isForced: force });
  const { session, page } = await makeSessionPage(io, runtime, session_id);
  await writeFileWhole(path, [page], { shown: html, isForced: force });
  if (json) return writeJson(io, { file: path, bytes: page.length });
  const { calls } = session.calls;
  const contexts = calls.length > CONTEXTS_MAX ? `, what the model was shown at its newest ${CONTEXTS_MAX} calls` : "";
  io.stderr.write(
    `Wrote ${html}: ${bytesText(page.length)}, ${counted(session.session.message_count, "message")}${contexts}.\n`,
  );
  io.stderr.write("Anyone who gets the file can read the whole session.\n");
}

/** A session as one page, with its data; throws PAYLOAD_TOO_LARGE above the limit. */
export async function makeSessionPage(
  { version, interrupt: signal }: Io,
  { dispatch }: Opened["runtime"],
  session_id: string,
): Promise<{ readonly session: SessionPage; readonly page: Buffer }> {
  const session = await exportPage({ dispatch, session_id, version, keptAt: new Date(), signal });
  const page = Buffer.from(await sessionPage(session));
  if (page.length <= PAGE_BYTES_MAX) return { session, page };
  const message = `the page would have ${bytesText(page.length)}, and browsers open at most ${bytesText(PAGE_BYTES_MAX)}; rkat session show --history --json has it all`;
  throw new RuntimeError("PAYLOAD_TOO_LARGE", message);
}
