import { isRecord } from "@rkat/core/contract/json";
import { below, chance, pick } from "../../test/compaction/chances.ts";
import {
  faultsOfAgent,
  faultsOfEvents,
  faultsOfHistory,
  faultsOfHits,
  type KnownSession,
  markersOf,
  textIn,
} from "./book.ts";
import { DIRECTIVES, received } from "./prompts.ts";
import { type Answer, anySession, ask, type Soak, sleepBelow, someSession } from "./soak.ts";

type Act = (soak: Soak) => Promise<void>;

const WORDS = [
  "the heron",
  "port 4711",
  "src/boat/house.ts",
  "blue",
  "ledger",
  "https://example.com/t/9",
  "tide",
  "三月",
];

function promptWith(soak: Soak, marker: string): string {
  const { random } = soak;
  const directive = pick(random, ["", "", "", "", DIRECTIVES.tools, DIRECTIVES.long, DIRECTIVES.slow]) ?? "";
  const words = Array.from({ length: 1 + below(random, 60) }, () => pick(random, WORDS)).join(" ");
  return `${marker} ${directive} What of ${words}?`;
}

const create: Act = async (soak) => {
  const { book, random } = soak;
  const marker = book.nextMarker();
  const created = await ask(soak, "createSession", {
    prompt: promptWith(soak, marker),
    tool_preset: pick(random, ["safe", "safe", "none"]),
    labels: { soak: "yes" },
  });
  if (created === undefined) return;
  book.session(String(created.session_id)).acknowledged.push({ marker, after: 0 });
  checkAnswer(soak, marker, created);
};

const turn: Act = async (soak) => {
  const session = someSession(soak);
  if (session !== undefined) await turnOf(soak, session, (marker) => promptWith(soak, marker));
};

/** Runs a turn; until it is answered nobody knows whether it will be there. */
export async function turnOf(soak: Soak, session: KnownSession, promptOf: (marker: string) => string): Promise<void> {
  const marker = soak.book.nextMarker();
  const after = session.acknowledged.length;
  session.doubtful.add(marker);
  const operation = chance(soak.random, 0.5) ? "startTurn" : "resumeSession";
  const input = { session_id: session.id, prompt: promptOf(marker) };
  const answer = await ask(soak, operation, input);
  if (answer === undefined) return;
  session.acknowledged.push({ marker, after });
  session.doubtful.delete(marker);
  checkAnswer(soak, marker, answer);
}

function checkAnswer(soak: Soak, marker: string, answer: NonNullable<Answer>): void {
  if (!textIn(answer).includes(received(marker))) {
    soak.fault(`WRONG answer to ${marker}: ${JSON.stringify(answer).slice(0, 200)}`);
  }
}

const interrupt: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined) return;
  const running = turnOf(soak, session, (marker) => `${marker} ${DIRECTIVES.slow} Tell me all.`);
  await sleepBelow(soak, 400);
  await ask(soak, "interruptTurn", { session_id: session.id });
  await running;
};

const history: Act = async (soak) => {
  const session = anySession(soak);
  if (session === undefined) return;
  const before = session.acknowledged.length;
  const read = await ask(soak, "readHistory", { session_id: session.id });
  if (read === undefined) return;
  for (const fault of faultsOfHistory(session, before, read)) soak.fault(`WRONG history of ${session.id}: ${fault}`);
};

const read: Act = async (soak) => {
  const session = anySession(soak);
  if (session === undefined) return;
  const [before, isArchived] = [session.acknowledged.length, session.archived === "yes"];
  const reported = await ask(soak, "readSession", { session_id: session.id });
  if (reported === undefined) return;
  if (Number(reported.message_count) < before * 2)
    soak.fault(`WRONG count of ${session.id}: ${reported.message_count}`);
  if (isArchived && reported.state !== "archived") soak.fault(`WRONG state of ${session.id}: ${reported.state}`);
};

/** More than there ever are. */
const LISTED_MAX = 1_000_000;

const list: Act = async (soak) => {
  const known = [...soak.book.sessions.values()];
  const here = known.filter(({ archived, acknowledged }) => archived === "no" && acknowledged.length > 0);
  const gone = known.filter(({ archived }) => archived === "yes");
  const listed = await ask(soak, "listSessions", { limit: LISTED_MAX });
  if (!Array.isArray(listed?.sessions)) return;
  const ids = new Set(listed.sessions.map((row: unknown) => Object(row).session_id));
  const missing = here.find(({ id, archived }) => archived === "no" && !ids.has(id));
  const back = gone.find(({ id }) => ids.has(id));
  if (missing !== undefined) soak.fault(`LOST from the list: ${missing.id}`);
  if (back !== undefined) soak.fault(`WRONG list: the archived ${back.id} is in it`);
};

const events: Act = async (soak) => {
  const session = anySession(soak);
  if (session === undefined) return;
  const scope = { type: "session", session_id: session.id };
  if (chance(soak.random, 0.3)) return void (await ask(soak, "readEventCursor", { scope }));
  const page = await ask(soak, "listEvents", { scope, cursor: { scope, sequence: below(soak.random, 40) } });
  if (page === undefined) return;
  for (const fault of faultsOfEvents(page)) soak.fault(`WRONG events of ${session.id}: ${fault}`);
};

const archive: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined || session.acknowledged.length < 3) return;
  session.archived = "asked";
  const done = await ask(soak, "archiveSession", { session_id: session.id }, ["SESSION_NOT_FOUND"]);
  if (done !== undefined) session.archived = "yes";
};

const fork: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined) return;
  const message_index = 1 + below(soak.random, 12);
  const start = await ask(soak, "readHistory", { session_id: session.id, limit: message_index });
  if (!Array.isArray(start?.messages) || start.messages.length < message_index) return;
  const forked = await ask(soak, "forkSession", { session_id: session.id, message_index }, ["INVALID_PARAMS"]);
  if (forked === undefined) return;
  const known = soak.book.session(String(forked.session_id));
  const said = textIn(start.messages.filter((message) => String(Object(message).role).includes("assistant")));
  for (const marker of markersOf(start.messages)) {
    if (said.includes(received(marker))) known.acknowledged.push({ marker, after: known.acknowledged.length });
    else known.doubtful.add(marker);
  }
};

const inject: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined) return;
  const at = { session_id: session.id };
  if (chance(soak.random, 0.5)) await ask(soak, "injectContext", { ...at, text: "The tide turns at noon." });
  else {
    const payload = { level: below(soak.random, 9) };
    await ask(soak, "sendExternalEvent", { ...at, kind: "generic_json", event_type: "tide", payload });
  }
};

const compact: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined) return;
  const at = { session_id: session.id };
  const compacted = await ask(soak, "compactSession", { ...at, preview: chance(soak.random, 0.3) });
  if (compacted === undefined) return;
  const listed = await ask(soak, "listCompactions", at);
  const ids = Array.isArray(listed?.compactions) ? listed.compactions.map((one: unknown) => Object(one)) : [];
  const newest = ids.findLast(({ undone }) => undone !== true);
  if (newest === undefined || chance(soak.random, 0.4)) return;
  const { compaction_id } = newest;
  // Somebody else may have undone it since.
  const raced = ["INVALID_PARAMS", "SESSION_NOT_FOUND"];
  const operation = chance(soak.random, 0.5) ? "undoCompaction" : "expandCompaction";
  await ask(soak, operation, { ...at, compaction_id }, raced);
};

const pin: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined) return;
  const at = { session_id: session.id };
  const reported = await ask(soak, "readHistory", { ...at, limit: 20 });
  const seqs = Array.isArray(reported?.messages)
    ? reported.messages.map((message: unknown) => Object(message).seq)
    : [];
  const seq = pick(soak.random, seqs);
  if (seq === undefined) return;
  const refusals = ["INVALID_PARAMS", "COMPACTION_THRESHOLD_UNREACHABLE"];
  const operation = chance(soak.random, 0.6) ? "pinMessage" : "unpinMessage";
  await ask(soak, operation, { ...at, seq }, refusals);
};

/** A session of its own: what a compaction takes out of its context, an undo gives back. */
const roundTrip: Act = async (soak) => {
  const marker = soak.book.nextMarker();
  const created = await ask(soak, "createSession", { prompt: `${marker} Begin.`, tool_preset: "none" });
  if (created === undefined) return;
  const at = { session_id: created.session_id };
  for (let turns = 0; turns < 6; turns += 1) {
    const prompt = `${soak.book.nextMarker()} ${DIRECTIVES.long} Go on.`;
    if ((await ask(soak, "startTurn", { ...at, prompt })) === undefined) return;
  }
  const before = await ask(soak, "readContext", at);
  const compacted = await ask(soak, "compactSession", at);
  const { compaction } = compacted ?? {};
  if (before === undefined || !isRecord(compaction)) return;
  const { compaction_id } = compaction;
  if ((await ask(soak, "undoCompaction", { ...at, compaction_id })) === undefined) return;
  const after = await ask(soak, "readContext", at);
  if (after !== undefined && after.sha256 !== before.sha256)
    soak.fault(`WRONG context after an undo of ${at.session_id}`);
};

const context: Act = async (soak) => {
  const session = anySession(soak);
  if (session !== undefined) await ask(soak, "readContext", { session_id: session.id });
};

const search: Act = async (soak) => {
  const { random, book } = soak;
  if (chance(random, 0.2)) return void (await ask(soak, "readMemoryStatus", {}));
  const session = anySession(soak);
  const [turn] = session?.acknowledged ?? [];
  const query =
    chance(random, 0.5) && turn !== undefined ? turn.marker : `${pick(random, WORDS)} ${pick(random, WORDS)}`;
  const within = chance(random, 0.3) && session !== undefined ? { scope: "session", session_id: session.id } : {};
  const found = await ask(soak, chance(random, 0.5) ? "searchMemory" : "searchHistory", { query, ...within });
  if (found === undefined) return;
  for (const fault of faultsOfHits(book, found.results)) soak.fault(`WRONG search: ${fault}`);
};

const AGENTS = ["soak-ada", "soak-bo", "soak-cy"];

const agent: Act = async (soak) => {
  const { random, book } = soak;
  const known = book.agent(pick(random, AGENTS) ?? "");
  const of = { agent: known.name };
  const kind = below(random, 10);
  if (kind < 5) {
    const content = `${book.nextMarker()} The ${pick(random, WORDS)} was seen.`;
    known.doubtful.add(content);
    const reported = await ask(soak, "remember", { ...of, content });
    if (reported === undefined) return;
    known.doubtful.delete(content);
    known.remembered.push(content);
  } else if (kind === 5) await ask(soak, "takeNote", { ...of, content: "Herons are early." });
  else if (kind === 6) await ask(soak, "readAgentContext", of);
  else if (kind === 7) await ask(soak, "compactAgent", of);
  else if (kind === 8) await ask(soak, "listAgents", {});
  else await checkAgent(soak, known.name);
};

export async function checkAgent(soak: Soak, name: string): Promise<void> {
  const known = soak.book.agent(name);
  const before = known.remembered.length;
  const status = await ask(soak, "readAgentStatus", { agent: name });
  if (status === undefined) return;
  for (const fault of faultsOfAgent(known, before, status)) soak.fault(fault);
}

const about: Act = async (soak) => {
  const operation = pick(soak.random, ["readCapabilities", "readModels", "readConfig"] as const) ?? "readModels";
  await ask(soak, operation, {});
};

/** A key that changes nothing that is looked at here. */
const configure: Act = async (soak) => {
  const patch = { agent: { budget_warning_threshold: pick(soak.random, [0.7, 0.8, 0.9]) } };
  await ask(soak, "patchConfig", { patch }, ["PERMISSION_DENIED"]);
};

/** Every kind of use, and how often it is made of a hundred and something. */
export const ACTS: readonly (readonly [weight: number, act: Act])[] = [
  [6, create],
  [28, turn],
  [4, interrupt],
  [10, history],
  [6, read],
  [3, list],
  [6, events],
  [1, archive],
  [2, fork],
  [3, inject],
  [4, compact],
  [3, pin],
  [1, roundTrip],
  [4, context],
  [5, search],
  [8, agent],
  [2, about],
  [1, configure],
];
