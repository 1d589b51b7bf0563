import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../../../config/load-config.ts";
import { asRuntimeError, ERRORS } from "../../../contract/error.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { writeJson } from "../io.ts";
import { isThere, withSessions } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import type { Invocation } from "../parts.ts";
import { bytesText, counted } from "../plain-text.ts";
import { whileWaiting } from "../progress/waiting.ts";

/** One thing that was looked at. `missing` is no fault: a turn can run without it. */
export interface Finding {
  readonly check: string;
  readonly status: "ok" | "missing" | "broken";
  readonly finding: string;
  readonly fix?: string;
}

/** Where sessions are kept, how many there are, and how much room they take. */
export async function examineSessions(invocation: Invocation, config: Config): Promise<Finding> {
  const check = "state";
  const { stateFolder } = invocation.place();
  if (!config.features.includes("session-store")) {
    return { check, status: "missing", finding: "not kept: the features leave out session-store" };
  }
  if (!(await isThere(stateFolder))) {
    return { check, status: "ok", finding: `none yet; they will be kept in ${stateFolder}` };
  }
  try {
    const kept = await withSessions(invocation, async ({ runtime }) => {
      const sessions = counted((await runtime.listSessions()).length, "session");
      const { agents } = await runtime.dispatch("listAgents", {});
      return agents.length === 0 ? sessions : `${sessions}, ${counted(agents.length, "agent")}`;
    });
    const size = bytesText(await folderBytes(stateFolder));
    return { check, status: "ok", finding: `${kept}, ${size} in ${stateFolder}` };
  } catch (thrown) {
    const fix = "rkat doctor --verify says what is damaged";
    return { check, status: "broken", finding: asRuntimeError(thrown).message, fix };
  }
}

async function folderBytes(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true });
  let bytes = 0;
  for (const name of names) {
    // A file may go while the folder is walked; it then takes no room.
    const found = await stat(join(folder, name)).catch(() => undefined);
    if (found?.isFile()) bytes += found.size;
  }
  return bytes;
}

/** Checks every record that is kept, and exits with the store's code when one is damaged. */
export async function verifySessions({ io, parts, place, exitWith }: Invocation, isJson: boolean): Promise<void> {
  const { stateFolder } = place();
  const report = (await isThere(stateFolder))
    ? await whileWaiting(io, "reading every record", () => parts.verifyStore(stateFolder))
    : { segments: 0, records: 0, sessions: 0, agents: 0, bytes: 0, problems: [] };
  const { segments, records, sessions, agents, bytes, problems } = report;
  const isSound = problems.length === 0;
  exitWith(isSound ? 0 : ERRORS.SESSION_STORE_ERROR.exit);
  if (isJson) return writeJson(io, { ok: isSound, ...report });
  const { green, red } = createPaint(io.stdout, io.env);
  for (const problem of problems) io.stdout.write(`${red("✗")} ${withoutControls(problem)}\n`);
  const whose = [counted(sessions, "session"), ...(agents === 0 ? [] : [counted(agents, "agent")])].join(" and ");
  const found = `${counted(records, "record")} of ${whose}`;
  const size = `${found} in ${counted(segments, "file")}, ${bytesText(bytes)}`;
  const verdict = isSound ? "every checksum is right" : counted(problems.length, "problem");
  io.stdout.write(`${isSound ? green("✓") : red("✗")} ${size}: ${verdict}\n`);
}
