import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { COMPACTION_PROMPT, SUMMARY_PREFIX } from "@rkat/core/compaction/shown-messages";
import type { Message } from "@rkat/core/contract/message";
import type { Runtime } from "@rkat/core/create-runtime";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import type { Session } from "@rkat/core/sessions/session-handle";
import { openRuntime } from "@rkat/node/open-runtime";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

let root: string;
const closing: (() => Promise<unknown>)[] = [];
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "rkat-work-")));
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  rmSync(root, { recursive: true });
});

/** A runtime whose model makes the calls of a list, and whose summaries say next to nothing. */
async function open(compaction: object = {}) {
  const script: ScriptedStep[] = [];
  const model = createScriptedModel(({ messages }) => {
    const last = messages.at(-1);
    if (last?.role === "user" && String(last.content).startsWith(COMPACTION_PROMPT)) return { text: "They worked." };
    return script.shift() ?? { text: "Done." };
  });
  const runtime = await openRuntime({
    stateFolder: join(root, ".rkat"),
    projectRoot: root,
    model,
    env: { PATH: process.env.PATH },
    toolPreset: "workspace",
    compaction: { recentTurnBudget: 1, ...compaction },
  });
  closing.push(() => runtime.close());
  return { runtime, model, script };
}
type Opened = Awaited<ReturnType<typeof open>>;

let ids = 0;
const call = (name: string, args: object): ScriptedStep => {
  ids += 1;
  return { calls: [{ id: `call-${ids}`, name, args: { ...args } }] };
};

/** Starts a job, makes two tasks of which one is done, writes a file, and runs a command that fails. */
async function work({ runtime, script }: Opened): Promise<{ session: Session; jobId: string }> {
  const patch = "*** Begin Patch\n*** Add File: src/heron.ts\n+export const heron = 1;\n*** End Patch";
  script.push(
    call("shell", { command: "sleep 600", background: true }),
    call("task_create", { subject: "Count the herons", description: "All of them." }),
    call("task_create", { subject: "Draw the reeds", description: "With a pencil." }),
  );
  const session = await runtime.createSession("Begin the work on the herons.");
  const history = await session.history();
  const outputs = history.messages.flatMap((message) =>
    message.role === "tool_results" ? message.results.map(({ content }) => JSON.parse(String(content))) : [],
  );
  script.push(
    call("task_update", { id: outputs[2].id, status: "completed" }),
    call("apply_patch", { patch }),
    call("shell", { command: "echo counting && exit 3" }),
  );
  await session.turn("Go on, and check it.");
  return { session, jobId: outputs[0].job_id };
}

async function talk(session: Session, turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await session.turn(`The heron flew away. ${"It came back. ".repeat(60)}`);
}

async function compact(session: Session, times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    await talk(session, 2);
    expect(await session.compact()).toMatchObject({ compacted: true });
  }
}

const workIn = (messages: readonly Message[]): string => {
  const summary = messages.find((message) => message.role === "user" && message.compaction_id !== undefined);
  const content = summary?.role === "user" ? String(summary.content) : "";
  return content.slice(content.indexOf("[Work state"));
};

function expectSixFacts(messages: readonly Message[], jobId: string): void {
  const shown = workIn(messages);
  expect(shown).toContain("last request of the user: The heron flew away.");
  expect(shown).toContain(`running job ${jobId}: "sleep 600"`);
  expect(shown).toMatch(/task \S+ pending: "Count the herons"/u);
  expect(shown).toContain('task done: "Draw the reeds"');
  expect(shown).toContain('wrote "src/heron.ts"');
  expect(shown).toContain('ran "echo counting && exit 3": exit code 3, NOT successful since');
  expect(shown.match(/\[Work state/gu)).toHaveLength(1);
}

async function shownIn(runtime: Runtime, id: string): Promise<readonly Message[]> {
  return (await (await runtime.session(id)).context()).messages;
}

describe("the state of the work", () => {
  it("[R1, R3] is in view after 2 compactions, after 20, after a restart and in a fork, with a summary that says nothing", async () => {
    const opened = await open();
    const { session, jobId } = await work(opened);
    await compact(session, 2);
    expectSixFacts(await shownIn(opened.runtime, session.id), jobId);
    await session.turn("And now?");
    expectSixFacts(opened.model.requests.at(-1)?.messages ?? [], jobId);
    await compact(session, 18);
    expectSixFacts(await shownIn(opened.runtime, session.id), jobId);
    const fork = await session.fork((await session.history()).messageCount);
    expect(JSON.stringify(await shownIn(opened.runtime, fork.id))).toBe(
      JSON.stringify(await shownIn(opened.runtime, session.id)),
    );
    await opened.runtime.close();
    const again = await open();
    expectSixFacts(await shownIn(again.runtime, session.id), jobId);
    await (await again.runtime.session(session.id)).turn("And now?");
    expectSixFacts(again.model.requests.at(-1)?.messages ?? [], jobId);
  });

  it("[R1, C6] adds no byte to a conversation without tools, and is off with work_state_tokens = 0", async () => {
    const plain = await open();
    const session = await plain.runtime.createSession("Tell me about herons.");
    await compact(session, 1);
    const { messages } = await session.context();
    expect(messages.find(({ role }) => role === "user")).toMatchObject({
      content: `${SUMMARY_PREFIX}\n\nThey worked.`,
    });
    await plain.runtime.close();
    const off = await open({ workStateTokens: 0 });
    const { session: worked } = await work(off);
    await compact(worked, 1);
    expect(workIn(await shownIn(off.runtime, worked.id))).not.toContain("Work state");
  });

  it("[R1] is a part of its own in the context, and is followed in receipts", async () => {
    const opened = await open();
    const { session } = await work(opened);
    await compact(session, 1);
    const { parts, kinds, estimatedTokens: estimated_tokens } = await session.context();
    expect(parts.map(({ kind }) => kind).slice(0, 2)).toEqual(["summary", "work_state"]);
    expect(kinds.reduce((sum, { tokens }) => sum + tokens, 0)).toBe(estimated_tokens);
    const [{ receipt, workState: work_state } = { receipt: undefined }] = await session.compactions();
    expect(work_state?.leftOut).toBe(0);
    const facts = receipt?.items.filter(({ kind }) => kind === "work_state") ?? [];
    expect(facts).toHaveLength(5);
    expect(new Set(facts.map(({ status }) => status))).toEqual(new Set(["in_summary"]));
  });

  it("[R1] is bounded; the rest is counted, and recall_output shows it", async () => {
    const opened = await open();
    const { runtime, script } = opened;
    script.push(
      ...Array.from({ length: 120 }, (_, at) => call("shell", { command: `test -e file-${at} # ${"x".repeat(60)}` })),
    );
    const session = await runtime.createSession("Look at everything.");
    await compact(session, 1);
    const shown = workIn(await shownIn(runtime, session.id));
    expect(Math.ceil(shown.length / 4)).toBeLessThanOrEqual(600);
    const [, left] = /- (\d+) more that did not fit/u.exec(shown) ?? [];
    expect(shown.split("\n").filter((line) => line.startsWith("- ran")).length + Number(left)).toBe(120);
    script.push(call("recall_output", {}));
    await session.turn("What was looked at?");
    const last = opened.model.requests.at(-1)?.messages.at(-1);
    const output = last?.role === "tool_results" ? String(last.results[0]?.content) : "";
    expect(output.match(/^- ran "test -e file-/gmu)).toHaveLength(120);
  });

  it("[R1, C13] follows an eviction, and an undo restores the bytes of before", async () => {
    const opened = await open({ autoCompactThreshold: 20_000, maxSummaryTokens: 200, evictAt: 0.1 });
    const { session } = await work(opened);
    await compact(session, 1);
    const before = await session.context();
    opened.script.push(call("shell", { command: "seq 1 2000" }), call("shell", { command: "seq 1 2001" }));
    await session.turn("List the numbers.");
    await talk(session, 3);
    const [first, ...evictions] = await session.compactions();
    expect(evictions.at(-1)?.strategy).toBe("eviction");
    expect(workIn(await shownIn(opened.runtime, session.id))).toContain('ran "seq 1 2001": exit code 0');
    expect(workIn(before.messages)).not.toContain("seq 1 2001");
    await session.undoCompaction(evictions[0]?.compactionId ?? "");
    const after = await session.context();
    expect(JSON.stringify(after.messages.slice(0, before.messages.length))).toBe(JSON.stringify(before.messages));
    expect(first?.undone).toBe(false);
  });
});
