import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { openRuntime } from "@rkat/node/open-runtime";
import { afterAll, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { startRkat } from "../support/rkat-process.ts";
import { testSeed } from "../support/seed.ts";
import { asClaudeCode, asCodex, CWD, drawConversation, marksIn } from "./foreign-files.ts";

const FILES = 40;
const KILLS = 10;

const folder = mkdtempSync(join(tmpdir(), "rkat-watch-killed-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A history that grows: its path below the watched folder, its text, and the project it was made in. */
interface Growing {
  readonly path: string;
  readonly lines: readonly string[];
  readonly project: string;
}

function drawHistory(seed: number): readonly Growing[] {
  return Array.from({ length: FILES }, (_, at) => {
    const drawn = drawConversation(seed + at, { exchanges: 20 });
    const project = join(folder, `project-${at % 3}`);
    const [text, path] =
      at % 2 === 0
        ? [asClaudeCode(drawn), `claude/${drawn.id}.jsonl`]
        : [asCodex(drawn), `codex/2026/01/02/rollout-2026-01-02T03-04-00-${drawn.id}.jsonl`];
    return { path: join(folder, "history", path), lines: text.replaceAll(CWD, project).split("\n"), project };
  });
}

/** Writes so much of every file, as if their programs had just come to there. */
function grow(files: readonly Growing[], share: number): void {
  for (const { path, lines } of files) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, lines.slice(0, Math.ceil(lines.length * share)).join("\n"));
  }
}

/** The marks of all sessions of a project, as often as they are there. */
async function marksKept(project: string): Promise<{ readonly sessions: number; readonly marks: readonly string[] }> {
  const realms = join(project, ".rkat", "realms");
  const own = readdirSync(realms).filter((name) => name.startsWith("ws-"));
  expect(own).toHaveLength(1);
  const runtime = await openRuntime({ stateFolder: join(realms, own.join()), model: "offline", env: {} });
  try {
    const { sessions } = await runtime.dispatch("listSessions", { limit: FILES });
    const marks: string[] = [];
    for (const { session_id } of sessions) {
      const { messages } = await runtime.dispatch("readHistory", { session_id });
      const { compactions } = await runtime.dispatch("listCompactions", { session_id });
      marks.push(...marksIn(JSON.stringify([messages, compactions.map(({ summary }) => summary)])));
    }
    return { sessions: sessions.length, marks: marks.toSorted() };
  } finally {
    await runtime.close();
  }
}

it("[U2] rkat watch, killed ten times while forty files grow, loses nothing and doubles nothing", async () => {
  const seed = testSeed();
  const random = createRandom(seed);
  const files = drawHistory(seed);
  const projects = [...new Set(files.map(({ project }) => project))];
  for (const project of projects) mkdirSync(project, { recursive: true });
  const history = join(folder, "history");

  let killed = 0;
  for (let round = 1; round <= KILLS; round += 1) {
    grow(files, (round - random()) / KILLS);
    const { child, ended, said } = startRkat(folder, ["watch", history]);
    const imports = 1 + Math.floor((random() * FILES) / 4);
    while (child.exitCode === null && said().split("\n").length <= imports) {
      await Promise.race([ended, new Promise((resolve) => child.stdout?.once("data", resolve))]);
    }
    if (child.kill("SIGKILL")) killed += 1;
    await ended;
  }
  expect(killed).toBe(KILLS);

  grow(files, 1);
  expect((await startRkat(folder, ["watch", history, "--once"]).ended).code).toBe(0);
  const again = await startRkat(folder, ["watch", history, "--once"]).ended;
  expect({ code: again.code, stdout: again.stdout }).toEqual({ code: 0, stdout: "" });
  for (const project of projects) {
    const own = files.filter((file) => file.project === project);
    const written = own.flatMap(({ lines }) => [...new Set(marksIn(lines.join("\n")))]);
    expect(await marksKept(project)).toEqual({ sessions: own.length, marks: written.toSorted() });
  }
}, 300_000);
