import { hash } from "node:crypto";
import { defaultConfig } from "@rkat/core/config/settings";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import { createHashingEmbedder } from "@rkat/node/embedders/open-embedder";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";

/** Everything a life was told is kept. */
export interface Kept {
  readonly turns: { readonly sessionId: string; readonly prompt: string }[];
  readonly blobs: string[];
  readonly compactions: { readonly sessionId: string; readonly id: string }[];
  readonly memories: string[];
  maxTurns: number | undefined;
}

/** What happened to a life. */
export interface Reported {
  /** Sentences of `warn` and of the agents' log. */
  readonly warnings: string[];
  /** What was refused, with its code. */
  readonly refused: string[];
  /** What must never happen: another error than one of the table's, a lost thing, a wrong answer. */
  readonly wrong: string[];
}

const TEXT_LONG = `${"all the lines of a long report ".repeat(100)}end`;
const longTool: Tool = {
  name: "report",
  description: "Writes a long report.",
  inputSchema: { type: "object" },
  execute: () => TEXT_LONG,
};

function config() {
  const base = defaultConfig();
  return {
    ...base,
    tools: { ...base.tools, output_bytes_max: 1_024 },
    agent_memory: { ...base.agent_memory, immediate_window: 2, recent_window: 2, profile: "offline" },
    profiles: { offline: { model: "offline", api: "chat" as const } },
    compaction: { recent_turn_budget: 1, min_turns_between_compactions: 0 },
  };
}

function openRuntimeOf(folder: string, reported: Reported): Promise<Runtime> {
  const model = createScriptedModel(({ messages, tools }) => {
    const last = messages.at(-1);
    if (tools.length === 0) return { text: "They spoke of colours." };
    const text = last?.role === "user" ? JSON.stringify(last.content) : "";
    return text.includes("report") ? { calls: [{ name: "report" }] } : { text: "Noted." };
  });
  const warn = (sentence: string): unknown => reported.warnings.push(sentence);
  return openRuntime({
    stateFolder: folder,
    config: config(),
    model,
    tools: [longTool],
    memory: { embedder: createHashingEmbedder() },
    env: {},
    warn,
    log: (line) => warn(line),
  });
}

export function emptyReport(): Reported {
  return { warnings: [], refused: [], wrong: [] };
}

export function emptyKept(): Kept {
  return { turns: [], blobs: [], compactions: [], memories: [], maxTurns: undefined };
}

/** Does what can be refused; only with a code of the table that says whose fault it is. */
async function attempt<T>(reported: Reported, what: string, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (thrown) {
    const code = thrown instanceof RuntimeError ? thrown.code : "no RuntimeError";
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    reported.refused.push(`${what}: ${code}: ${message}`);
    if (["INTERNAL_ERROR", "no RuntimeError"].includes(code) || message.includes("\n    at ")) {
      reported.wrong.push(`${what}: ${code}: ${thrown instanceof Error ? thrown.stack : message}`);
    }
    return undefined;
  }
}

const COLOURS = ["vermilion", "cerulean", "ochre", "magenta", "celadon"];

/**
 * Says, remembers, compacts and configures; notes what it was told is kept. Any of it may be refused until the disk is
 * `mended`, and nothing from then on.
 */
export async function live(
  folder: string,
  { kept, reported, mend }: { kept: Kept; reported: Reported; mend: () => void },
) {
  const runtime = await attempt(reported, "open", () => openRuntimeOf(folder, reported));
  if (runtime === undefined) return;
  const sessions = await Promise.all([
    attempt(reported, "create", () => runtime.createDeferredSession("Begin.")),
    attempt(reported, "create", () => runtime.createDeferredSession("Begin.")),
  ]);
  for (const session of sessions) {
    if (session === undefined) continue;
    for (const [at, colour] of COLOURS.entries()) {
      const prompt = at === 1 ? `A report on ${colour} please.` : `The colour is ${colour} now.`;
      const result = await attempt(reported, "turn", () => session.turn(prompt));
      if (result !== undefined && result.terminalCauseKind === undefined)
        kept.turns.push({ sessionId: session.id, prompt });
      if (at !== 3) continue;
      const compacted = await attempt(reported, "compact", () => session.compact());
      const id = compacted?.compaction?.compactionId;
      if (id !== undefined) kept.compactions.push({ sessionId: session.id, id });
      await attempt(reported, "search", () => runtime.searchMemory("vermilion"));
    }
    const history = await attempt(reported, "history", () => session.history());
    const blob = /sha256:[0-9a-f]{64}/.exec(JSON.stringify(history?.messages ?? []))?.[0];
    if (blob !== undefined) kept.blobs.push(blob);
  }
  for (const number of [1, 2, 3, 4, 5, 6]) {
    const memory = `I remember the ${COLOURS[number % COLOURS.length]} of day ${number}.`;
    const remembered = await attempt(reported, "remember", () => runtime.agent("ada").remember(memory));
    if (remembered !== undefined) kept.memories.push(memory);
  }
  await attempt(reported, "compact agent", () => runtime.agent("ada").compact());
  const changed = await attempt(reported, "configure", () =>
    runtime.dispatch("patchConfig", { agent: { max_turns: 77 } }),
  );
  if (changed !== undefined) kept.maxTurns = 77;
  await attempt(reported, "list", () => runtime.listSessions());
  mend();
  await goOn(runtime, kept, reported);
}

/** With a disk that works: everything that was said to be kept is there, and a life goes on. */
export async function reopen(folder: string, kept: Kept, reported: Reported): Promise<void> {
  const runtime = await attempt(reported, "open again", () => openRuntimeOf(folder, reported));
  if (runtime === undefined) reported.wrong.push(`on a sound disk: ${reported.refused.at(-1)}`);
  else await goOn(runtime, kept, reported);
}

async function goOn(runtime: Runtime, kept: Kept, reported: Reported): Promise<void> {
  const refused = reported.refused.length;
  await check(runtime, kept, reported);
  await attempt(reported, "turn again", async () => {
    const session = await runtime.createSession("The last colour is amaranth.");
    kept.turns.push({ sessionId: session.id, prompt: "The last colour is amaranth." });
  });
  const first = kept.turns[0];
  if (first !== undefined) {
    const prompt = "And one more is aubergine.";
    await attempt(reported, "turn of before", () => runtime.session(first.sessionId).turn(prompt));
    kept.turns.push({ sessionId: first.sessionId, prompt });
  }
  await attempt(reported, "remember again", () => runtime.agent("ada").remember("I remember the end."));
  kept.memories.push("I remember the end.");
  await check(runtime, kept, reported);
  await attempt(reported, "close again", () => runtime.close());
  for (const sentence of reported.refused.slice(refused)) reported.wrong.push(`on a sound disk: ${sentence}`);
}

async function check(runtime: Runtime, kept: Kept, reported: Reported): Promise<void> {
  const expectThat = (is: boolean, sentence: string): void => {
    if (!is) reported.wrong.push(sentence);
  };
  const listed = new Set((await attempt(reported, "list", () => runtime.listSessions()))?.map((row) => row.sessionId));
  for (const { sessionId, prompt } of kept.turns) {
    expectThat(listed.has(sessionId), `session ${sessionId} is not listed`);
    const history = await attempt(reported, "history", () => runtime.session(sessionId).history());
    expectThat(JSON.stringify(history ?? "").includes(prompt), `session ${sessionId} lost ${JSON.stringify(prompt)}`);
    const found = await attempt(reported, "search", () =>
      runtime.searchMemory(prompt, { everything: true, limit: 20 }),
    );
    const isFound = JSON.stringify(found ?? "").includes(JSON.stringify(prompt).slice(1, -1));
    expectThat(isFound, `a search does not find ${JSON.stringify(prompt)} of session ${sessionId}`);
  }
  for (const { sessionId, id } of kept.compactions) {
    const ids = await attempt(reported, "compactions", () => runtime.session(sessionId).compactions());
    expectThat(
      (ids ?? []).some(({ compactionId: compaction_id }) => compaction_id === id),
      `compaction ${id} is lost`,
    );
  }
  for (const id of kept.blobs) {
    const blob = await attempt(reported, "blob", () => runtime.readBlob(id));
    const is = blob !== undefined && `sha256:${hash("sha256", blob.data)}` === id;
    expectThat(is, `blob ${id} is lost or another`);
  }
  if (kept.memories.length > 0) {
    const context = await attempt(reported, "agent", () => runtime.agent("ada").context({ immediate: 100 }));
    for (const memory of kept.memories)
      expectThat(JSON.stringify(context ?? "").includes(memory), `the agent lost ${memory}`);
  }
  if (kept.maxTurns !== undefined) {
    const config = JSON.stringify(await attempt(reported, "config", () => runtime.dispatch("readConfig", {})));
    expectThat(config?.includes(`"max_turns":${kept.maxTurns}`) === true, "the configuration is lost");
  }
}

/** What a check of every checksum says. */
export async function verify(folder: string, reported: Reported): Promise<void> {
  const found = await attempt(reported, "verify", () => verifyStore(folder));
  for (const problem of found?.problems ?? []) reported.wrong.push(`verify: ${problem}`);
}
