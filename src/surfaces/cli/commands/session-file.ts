import { resolve } from "node:path";
import { RuntimeError } from "../../../contract/error.ts";
import type { KeptSession } from "../../../contract/kept-session.ts";
import { bytesText, counted, type Io, writeJson } from "../io.ts";
import { CONTEXTS_MAX, keepSession } from "../keep-session.ts";
import type { Opened } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { sessionPage } from "../session-page.ts";
import { refuseExisting, writeFileWhole } from "./output-file.ts";

/** What is larger no browser opens in reasonable time. */
const PAGE_BYTES_MAX = 100 * 1024 * 1024;

export interface PageFlags {
  readonly html: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** Writes a session as one page, for somebody who has neither rkat nor the sessions. */
export async function writeSessionPage(
  { io }: Invocation,
  { runtime }: Opened,
  { id: session_id, html, force = false, json }: PageFlags & { readonly id: string },
): Promise<void> {
  const path = resolve(io.cwd, html);
  const file = { shown: html, isForced: force };
  // Before everything is read for nothing.
  await refuseExisting(path, file);
  const { session, page } = await makeSessionPage(io, runtime, session_id);
  await writeFileWhole(path, [page], file);
  if (json) return writeJson(io, { file: path, bytes: page.length });
  const { calls } = session.calls;
  const contexts = calls.length > CONTEXTS_MAX ? `, what the model was shown at its newest ${CONTEXTS_MAX} calls` : "";
  io.stderr.write(
    `Wrote ${html}: ${bytesText(page.length)}, ${counted(session.session.message_count, "message")}${contexts}.\n`,
  );
  io.stderr.write("Whoever has the file can read all of it.\n");
}

/** A session as one page, with what it was made of; throws PAYLOAD_TOO_LARGE for one that no browser would show. */
export async function makeSessionPage(
  { version, interrupt: signal }: Io,
  { dispatch }: Opened["runtime"],
  session_id: string,
): Promise<{ readonly session: KeptSession; readonly page: Buffer }> {
  const session = await keepSession({ dispatch, session_id, version, keptAt: new Date(), signal });
  const page = Buffer.from(await sessionPage(session));
  if (page.length <= PAGE_BYTES_MAX) return { session, page };
  const message = `the page would have ${bytesText(page.length)}, and no browser likes more than ${bytesText(PAGE_BYTES_MAX)}; rkat session show --history --json has it all`;
  throw new RuntimeError("PAYLOAD_TOO_LARGE", message);
}
