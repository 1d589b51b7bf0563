import { hash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Entry } from "@rkat/core/contract/entry";
import { createRuntime, type Runtime } from "@rkat/core/create-runtime";
import type { Session } from "@rkat/core/sessions/session-handle";
import { assembleContext, hashContext } from "@rkat/core/state/context";
import { applyEntry, foldSession, type WholeState } from "@rkat/core/state/whole-state";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { chance, pick } from "./chances.ts";
import { createCompactingModel, look, OFTEN } from "./compacting-model.ts";

const TURNS = 500;
const SEED = 7;
const TIMEOUT_MS = 120_000;
const NO_SESSION = "01900000-0000-7000-8000-000000000000";
/** The summary during which a text is injected. */
const INJECTED_AT = 4;
const INJECTED_KEY = "while a summary is written";
/** Every call is checked in one fold; so many are asked of the runtime, which folds anew for each. */
const SAMPLES = 20;

const folder = mkdtempSync(join(tmpdir(), "rkat-replay-"));
let sessionId = NO_SESSION;
let entries: readonly Entry[] = [];
let reported: Awaited<ReturnType<typeof report>>;

/** What a session says of itself. */
async function report(runtime: Runtime, session: Session) {
  return {
    compactions: await session.compactions(),
    cadence: (await runtime.readSession(session.id)).sessionCompactionCadence,
    context: await session.context(),
    revision: await session.revision(),
    rewrites: await session.rewrites(),
  };
}

async function open(): Promise<Runtime> {
  const inject = async (number: number): Promise<void> => {
    if (number !== INJECTED_AT) return;
    const input = { session_id: sessionId, text: "the build is green again", idempotency_key: INJECTED_KEY };
    await runtime.dispatch("injectContext", input);
  };
  const runtime = createRuntime({
    model: createCompactingModel(inject),
    store: await openEmbeddedStore(folder),
    tools: [look],
    toolPreset: "none",
    systemPrompt: "be brief",
    compaction: OFTEN,
    env: {},
  });
  return runtime;
}

/** Five hundred turns, with everything on the way that changes what is shown. */
async function live(runtime: Runtime): Promise<Session> {
  const random = createRandom(SEED);
  const session = await runtime.createSession("turn 0: write a parser");
  sessionId = session.id;
  for (let turn = 1; turn < TURNS; turn += 1) {
    await session.turn(`turn ${turn}: and then?`);
    if (chance(random, 0.03))
      await runtime.dispatch("injectContext", { session_id: sessionId, text: `notice ${turn}` });
    if (turn % 60 === 0) await session.pin(pick(random, (await session.history()).messages.slice(1))?.seq ?? 0);
    if (turn % 70 === 0) await session.compact();
    const standing = (await session.compactions()).filter(({ undone, discarded }) => !undone && discarded.length > 0);
    if (turn % 80 === 0) await session.expandCompaction(pick(random, standing)?.compactionId ?? "", { maxTokens: 900 });
    if (turn % 90 === 0) await session.undoCompaction(standing.at(-1)?.compactionId ?? "");
    if (turn % 35 === 0) await reword(session, random);
    if (turn % 100 === 0) await session.restore((await session.rewrites()).at(-1)?.parentRevision ?? "");
  }
  return session;
}

/** Says something the user said otherwise, at the end or anywhere. */
async function reword(session: Session, random: () => number): Promise<void> {
  const { messages } = await session.history();
  const asked = messages.flatMap(({ role }, at) => (role === "user" ? [at] : []));
  const at = (chance(random, 0.5) ? asked.at(-1) : pick(random, asked)) ?? 0;
  await session.rewrite({ start: at, end: at + 1 }, [{ role: "user", content: `said otherwise at ${at}` }]);
}

beforeAll(async () => {
  const runtime = await open();
  reported = await report(runtime, await live(runtime));
  await runtime.close();
  const store = await openEmbeddedStore(folder);
  entries = await store.log.read(sessionId, 1, Number.MAX_SAFE_INTEGER);
  await store.close();
}, TIMEOUT_MS);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const sha256 = (text: string): string => hash("sha256", text);

describe(`a session of ${TURNS} turns that compacts tens of times`, () => {
  it("[C13] was compacted, undone, expanded, pinned, rewritten and injected into", () => {
    const kinds = new Map<string, number>();
    for (const { body } of entries) kinds.set(body.kind, (kinds.get(body.kind) ?? 0) + 1);
    expect(kinds.get("turn_opened")).toBe(TURNS);
    expect(kinds.get("compacted")).toBeGreaterThan(30);
    for (const kind of ["compaction_undone", "expanded", "pinned", "notice", "rewritten"])
      expect(kinds.get(kind)).toBeGreaterThan(4);
    const at = entries.findIndex(({ body }) => body.kind === "notice" && body.idempotency_key === INJECTED_KEY);
    const around = [entries[at - 1], entries[at + 1]].map((entry) => entry?.body);
    expect(around).toMatchObject([{ kind: "event", event: { type: "compaction_started" } }, { kind: "compacted" }]);
  });

  it("[C13] folds from its log into the very context of every call it made", () => {
    const { calls, state } = replay();
    expect(calls.filter(({ recorded, folded }) => recorded !== folded)).toEqual([]);
    expect(calls.length).toBeGreaterThan(TURNS);
    expect(assembleContext(state)).toEqual(reported.context.messages.map(({ seq: _seq, ...message }) => message));
  });

  it(
    "[C13] says after a restart what it said before, also of earlier calls",
    async () => {
      const runtime = await open();
      try {
        const session = runtime.session(sessionId);
        expect(await report(runtime, session)).toEqual(reported);
        const { calls } = replay();
        for (const { seq, recorded } of calls.filter((_, at) => at % Math.floor(calls.length / SAMPLES) === 0)) {
          expect({ seq, sha256: (await session.context({ atSeq: seq })).sha256 }).toEqual({ seq, sha256: recorded });
        }
      } finally {
        await runtime.close();
      }
    },
    TIMEOUT_MS,
  );
});

/** Folds the log once, and compares at each call. */
function replay(): { calls: readonly { seq: number; recorded: string; folded: string }[]; state: WholeState } {
  const calls: { seq: number; recorded: string; folded: string }[] = [];
  const state = foldSession(sessionId, entries.slice(0, 1));
  for (const entry of entries.slice(1)) {
    applyEntry(state, entry);
    if (entry.body.kind !== "model_called") continue;
    const folded = hashContext(assembleContext(state), sha256);
    calls.push({ seq: entry.seq, recorded: entry.body.context_sha256, folded });
  }
  return { calls, state };
}
