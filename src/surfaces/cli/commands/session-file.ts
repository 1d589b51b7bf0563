import { randomUUID } from "node:crypto";
import { lstat, rename, rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { RuntimeError } from "../../../contract/error.ts";
import type { KeptSession } from "../../../contract/kept-session.ts";
import { isErrno } from "../../wire/realm.ts";
import type { View } from "../command-row.ts";
import { bytesText, counted, type Io, writeJson } from "../io.ts";
import { CONTEXTS_MAX, keepSession } from "../keep-session.ts";
import type { Opened } from "../open-runtime.ts";
import { sessionPage } from "../session-page.ts";

/** What is larger no browser opens in reasonable time. */
const PAGE_BYTES_MAX = 100 * 1024 * 1024;

export interface PageFlags {
  readonly html: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** Writes a session as one page, for somebody who has neither rkat nor the sessions. */
export async function writeSessionPage(
  { io, opened: { runtime }, id: session_id }: View,
  { html, force = false, json }: PageFlags,
): Promise<void> {
  const path = resolve(io.cwd, html);
  // Told before all is read for nothing.
  const isThere = await refuseExisting(path, { shown: html, isForced: force });
  const { session, page } = await makeSessionPage(io, runtime, session_id);
  await writePage(path, { page, shown: html, isThere });
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

/** Whether a file is there that may be replaced. */
export async function refuseExisting(
  path: string,
  { shown, isForced }: { readonly shown: string; readonly isForced: boolean },
): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) return false;
  // A link may lead to something else, and a device is nothing to be replaced.
  if (!found.isFile()) throw new RuntimeError("INVALID_PARAMS", `${shown} is there and is no plain file; name another`);
  if (!isForced) throw alreadyThere(shown);
  return true;
}

/** Writes a page where nothing is, or what is may be replaced. */
export async function writePage(
  path: string,
  { page, shown, isThere }: { readonly page: Buffer; readonly shown: string; readonly isThere: boolean },
): Promise<void> {
  // What is there stays until the new one is whole, and lends it neither its content nor its rights.
  const written = isThere ? `${path}.${randomUUID()}` : path;
  try {
    await writeFile(written, page, { flag: "wx", mode: 0o600 });
    if (isThere) await rename(written, path);
  } catch (cause) {
    const code = isErrno(cause) ? cause.code : undefined;
    if (code === "EEXIST") throw alreadyThere(shown, cause);
    if (code !== "ENOENT") await rm(written, { force: true }).catch(() => {});
    const message = `${shown} cannot be written: ${code ?? "it failed"}; check that its folder is there and yours`;
    throw new RuntimeError("INVALID_PARAMS", message, { cause });
  }
}

function alreadyThere(shown: string, cause?: unknown): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", `${shown} is there already; --force overwrites it`, { cause });
}
