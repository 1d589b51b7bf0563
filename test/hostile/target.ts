import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Runtime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createHashingEmbedder } from "@rkat/node/embedders/open-embedder";
import { openRuntime } from "@rkat/node/open-runtime";
import { createRandom } from "../crash/random.ts";
import { type Attack, type AttackOptions, handles, leakedSince } from "./attack.ts";
import type { Draw } from "./inputs.ts";

/** A runtime as servers have it, with every capability and a state folder, and a model that answers at once. */
export interface Target {
  readonly runtime: Runtime;
  readonly folder: string;
  readonly draw: Draw;
  /** Adds a session that inputs may name; the oldest are forgotten. */
  know(sessionId: string): void;
  /** A good request: a new session answers. Throws when it does not. */
  prove(): Promise<void>;
  /** Calling it twice does no harm. */
  close(): Promise<void>;
}

export const REALM = "attacked";
const SESSIONS_KNOWN = 8;

/** Attacks a runtime that is made for it; what is still open when it has closed was leaked. */
export async function attackTarget(
  { seed }: AttackOptions,
  attack: (target: Target) => Promise<Omit<Attack, "leaked">>,
): Promise<Attack> {
  const before = handles();
  const target = await openTarget(seed);
  try {
    const result = await attack(target);
    await target.prove();
    await target.close();
    return { ...result, leaked: await leakedSince(before) };
  } finally {
    await target.close();
  }
}

async function openTarget(seed: number): Promise<Target> {
  const folder = mkdtempSync(join(tmpdir(), "rkat-hostile-"));
  const { requests, ...model } = createScriptedModel(() => {
    // The script remembers every request, which would look like a leak.
    (requests as unknown[]).length = 0; // Ours: nobody else has it.
    return { text: ["Yes, ", "indeed."] };
  });
  const runtime = await openRuntime({
    stateFolder: join(folder, REALM),
    model,
    env: {},
    projectRoot: folder,
    memory: { embedder: createHashingEmbedder() },
  });
  const sessions: string[] = [];
  const know = (sessionId: string): void => {
    sessions.push(sessionId);
    if (sessions.length > SESSIONS_KNOWN) sessions.shift();
  };
  const prove = async (): Promise<void> => {
    const session = await runtime.createSession("Are you there?");
    if (session.text !== "Yes, indeed.") throw new Error(`the runtime answers ${JSON.stringify(session.text)}`);
    know(session.id);
  };
  for (let session = 0; session < SESSIONS_KNOWN; session += 1) await prove();
  return {
    runtime,
    folder,
    know,
    prove,
    draw: { random: createRandom(seed), sessions },
    close: async () => {
      await runtime.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
