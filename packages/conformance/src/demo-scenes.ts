import { describeEvent } from "@rkat/core/contract/describe-event";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { Runtime } from "@rkat/core/create-runtime";
import type { ModelRequest } from "@rkat/core/ports/model";
import type { createScriptedModel } from "@rkat/core/providers/scripted";
import type { EventStream, Session, TurnResult } from "@rkat/core/sessions/session-handle";
import type { OpenOptions } from "@rkat/node/open-runtime";

/** Text as it streams, and a session that continues. */
const talk: Scene = {
  title: "A session, streamed",
  story: "The offline model answers: no network, no weights. Each word is an event of its own.",
  play: async ({ runtime, watch, claim }) => {
    const first = await watch("The release is on 3 June and Mara owns the rollback plan.", (prompt) =>
      runtime.createSessionStreaming(prompt, { toolPreset: "none" }),
    );
    const session = runtime.session(first.result.sessionId);
    const second = await watch("Who owns the rollback plan?", (prompt) => session.stream(prompt));
    const pieces = eventsOf(second, "text_delta").length;
    await claim("the answer came in pieces", pieces > 1);
    await claim("and remembers what was said a turn earlier", second.result.text.includes("Mara"));
  },
};

const DETAIL = "The staging database listens on port 6543.";
const PORT = "6543";

const PROMPTS = [
  "We move the web shop to the new cluster in March. Never deploy on a Friday.",
  DETAIL,
  "The login page has to load in under 800 ms on a slow phone.",
  "Backups are in /srv/backups/nightly and are kept for 30 days.",
  "Tomas saw the image cache grow by 2 GB a week.",
  "Priya decided that the old cluster stays until 14 April.",
  "The load test ran with 1200 users and 3 errors.",
  "Invoices go out from billing@example.com on the first of the month.",
  "The new logo is in assets/logo-final.svg.",
  "Lena will write the release notes by Tuesday.",
  "Rebuilding the search index took 41 minutes.",
  "We decided that dark_mode stays off until version 2.4.",
  "The on-call phone moves to Amir next week.",
  "The export button is hard to find, customers say.",
];

/** So many turns are watched word by word; of the others what was said is enough. */
const WATCHED_TURNS = 2;

/** Far below what a real session needs, so that it happens while one watches. */
const COMPACTION = { autoCompactThreshold: 950, maxSummaryTokens: 60, recentTurnBudget: 2 } as const;

/** One conversation in three scenes: a detail leaves the context, is found again, and comes back. */
function createLongTalk(): readonly Scene[] {
  const talked = Promise.withResolvers<{ readonly session: Session }>();
  return [
    {
      title: "A long conversation",
      story: `It outgrows its context of ${COMPACTION.autoCompactThreshold} tokens. Older turns become a summary; the receipt says where every path, number and rule is now.`,
      play: async (stage) => talked.resolve({ session: await holdTalk(stage) }),
    },
    {
      title: "What left the context is recalled",
      story:
        "The model is asked about turn 2, which it is not shown any more. It searches its memory, here on this machine.",
      play: async (stage) => recallDetail(stage, (await talked.promise).session),
    },
    {
      title: "A compaction, undone",
      story: "A compaction is an entry in a log, so it can be taken back. What was said after it stays.",
      play: async (stage) => undo(stage, (await talked.promise).session),
    },
  ];
}

async function holdTalk(stage: Stage): Promise<Session> {
  const runtime = await stage.openKept({ compaction: COMPACTION });
  const first = await stage.watch(PROMPTS[0] ?? "", (prompt) =>
    runtime.createSessionStreaming(prompt, { toolPreset: "none", enableMemory: true }),
  );
  const session = runtime.session(first.result.sessionId);
  for (const [index, prompt] of PROMPTS.entries()) {
    if (index === 0) continue;
    if (index < WATCHED_TURNS) await stage.watch(prompt, (words) => session.stream(words));
    else await takeQuietly(stage, { session, prompt, turn: index + 1 });
  }
  const compactions = await session.compactions();
  await stage.table(
    compactions.map(({ messagesBefore, messagesAfter, tokensBefore, tokensAfter, receipt }, index) => ({
      compaction: index + 1,
      messages: `${messagesBefore} → ${messagesAfter}`,
      tokens: `${tokensBefore} → ${tokensAfter}`,
      facts: receipt.total,
      "in view": receipt.inSummary + receipt.inTail + receipt.pinned,
      recoverable: receipt.recoverable,
      lost: receipt.lost,
    })),
  );
  const receipts = compactions.map(({ receipt }) => receipt);
  await stage.print("", receipts.at(-1)?.verdict ?? "");
  const isFound = receipts.every(({ lost, recoverable, foundBySearch }) => lost === 0 && recoverable === foundBySearch);
  await stage.claim("it was compacted by itself, more than once", compactions.length > 1);
  await stage.claim("nothing was lost: what was not kept, a search of memory found", isFound && receipts.length > 0);
  const [context, history] = await Promise.all([session.context(), session.history()]);
  const isGone = !JSON.stringify(context.messages).includes(PORT);
  await stage.claim(`the port of turn 2 is not in the ${context.messages.length} messages the model is shown`, isGone);
  await stage.claim(`the history has all ${history.messages.length}`, history.messages.length === 2 * PROMPTS.length);
  return session;
}

async function takeQuietly(
  stage: Stage,
  { session, prompt, turn }: { readonly session: Session; readonly prompt: string; readonly turn: number },
): Promise<void> {
  await stage.print(`turn ${turn}`, prompt);
  for await (const event of session.stream(prompt)) {
    if (event.type === "compaction_completed") await stage.print("", describeEvent(event).text);
  }
}

interface Found {
  readonly content: string;
  readonly score: number;
  readonly turn: number;
}

async function recallDetail(stage: Stage, session: Session): Promise<void> {
  const turn = await stage.watch("Which port does the staging database use?", (prompt) => session.stream(prompt));
  const [call] = eventsOf(turn, "tool_call_requested");
  const [answer] = eventsOf(turn, "tool_execution_completed");
  const [hit] = hitsIn(answer?.result);
  await stage.print("asked", String(call?.args.query));
  await stage.print("found", `“${hit?.content}”, score ${hit?.score}, turn ${hit?.turn}`);
  await stage.claim("it asked its memory by itself", call?.name === "memory_search");
  await stage.claim("and found the very words of turn 2", hit?.content === DETAIL && hit.turn === 2);
  await stage.claim("the answer has the port", turn.result.text.includes(PORT));
}

/** What the tool answers is a JSON list of hits; anything else is none. */
function hitsIn(result: string | undefined): readonly Found[] {
  try {
    const hits: unknown = JSON.parse(result ?? "");
    // The tool's own output, whose shape the contract of memory states.
    return Array.isArray(hits) ? (hits as readonly Found[]) : [];
  } catch {
    return [];
  }
}

async function undo(stage: Stage, session: Session): Promise<void> {
  const [first] = await session.compactions();
  const last = "Amir tests the backups on Monday.";
  await stage.watch(last, (prompt) => session.stream(prompt));
  const before = await session.context();
  const undone = first === undefined ? [] : await session.undoCompaction(first.compactionId);
  const [after, history] = await Promise.all([session.context(), session.history()]);
  const sizes = `${before.messages.length} → ${after.messages.length} messages`;
  await stage.print("undo", `the first, and with it those built on it: ${undone.length} compactions`);
  await stage.print("context", sizes);
  const said = (messages: readonly unknown[]): string => messages.map((message) => JSON.stringify(message)).join("\n");
  await stage.claim("the model is shown every message again", said(after.messages) === said(history.messages));
  await stage.claim("turn 2 with its port among them", said(after.messages).includes(DETAIL));
  await stage.claim(`and the last, “${last}”`, said(after.messages.slice(-2)).includes(last));
}

const NAME = "ada";
const DAYS = 200;
const FIRST_DAY = "On my first day Mara gave me the brass key to the north greenhouse.";
const BEGINNING_CHARS_MAX = 24;

/** An agent that has lived long enough for three tiers, before and after a restart. */
const longLife: Scene = {
  title: "An agent that remembers for months",
  story: `${NAME} is given ${DAYS} memories. The newest are kept word for word, those before in a summary, the oldest in another. Then everything is closed and opened again.`,
  play: async ({ openKept, table, claim }) => {
    const young = await openKept();
    const agent = young.agent(NAME);
    await agent.remember(FIRST_DAY);
    for (let day = 2; day <= DAYS; day += 1) {
      await agent.remember(`Day ${day}: I watered row ${day % 12} and saw ${day % 7} herons.`);
    }
    await young.close();
    const old = (await openKept()).agent(NAME);
    const { count, longtermRange: oldest, recentRange: recent } = await old.status();
    const { immediate, longtermSummary = "", recentSummary = "" } = await old.context();
    const [first] = immediate;
    const last = immediate.at(-1);
    const row = (tier: string, from: number | undefined, to: number | undefined, summary?: string) => ({
      tier,
      memories: `${from ?? "?"} to ${to ?? "?"}`,
      kept: summary === undefined ? "word for word" : `a summary, ${summary.length} characters`,
      "begins with": `${(summary ?? first?.content ?? "").slice(0, BEGINNING_CHARS_MAX - 1)}…`,
    });
    await table([
      row("immediate", first?.seq, last?.seq),
      row("short-term", recent?.fromSeq, recent?.toSeq, recentSummary),
      row("long-term", oldest?.fromSeq, oldest?.toSeq, longtermSummary),
    ]);
    const meets = (end: number | undefined, begin: number | undefined) => begin === (end ?? Number.NaN) + 1;
    await claim(`all ${DAYS} memories are there after the restart`, count === DAYS && last?.seq === DAYS);
    await claim(
      "each is in one tier, and none in no tier",
      oldest?.fromSeq === 1 && meets(oldest.toSeq, recent?.fromSeq) && meets(recent?.toSeq, first?.seq),
    );
    await claim("the first day is not forgotten", longtermSummary.includes(FIRST_DAY));
  },
};

/** Two calls in one answer run at once. */
const parallelTools: Scene = {
  title: "Two tools at once",
  story: "Calls of one answer run in parallel; their results return in the order of the calls.",
  play: async ({ runtime, watch, claim }) => {
    const turn = await watch("Add a task: write the release notes. Add a task: tag the release.", (prompt) =>
      runtime.createSessionStreaming(prompt, { toolPreset: "safe" }),
    );
    const types = turn.events.map(({ type }) => type);
    const startedFirst = types
      .slice(0, types.indexOf("tool_execution_completed"))
      .filter((type) => type === "tool_execution_started");
    await claim("both calls were running before the first had answered", startedFirst.length === 2);
    const asked = eventsOf(turn, "tool_call_requested").map(({ id }) => id);
    const answered = eventsOf(turn, "tool_result_received").map(({ id }) => id);
    await claim("the results came in the order of the calls", asked.join() === answered.join() && asked.length === 2);
  },
};

const RETRY_AFTER_MS = 700;

/** A call of a tool that is not there. */
const badCall: Scene = {
  title: "A bad tool call",
  story: "Scripted, since the offline model makes no such mistakes: the model calls a tool that does not exist.",
  play: async ({ openScripted, watch, claim }) => {
    const runtime = await openScripted((request, index) =>
      index === 0
        ? { text: ["Let me ", "look."], calls: [{ name: "weather", args: { city: "Oslo" } }] }
        : { text: `I have no such tool, I was told: ${lastToolError(request)}`.split(/(?<=\s)/) },
    );
    const turn = await watch("How is the weather in Oslo?", (prompt) =>
      runtime.createSessionStreaming(prompt, { toolPreset: "safe" }),
    );
    const [answer] = eventsOf(turn, "tool_result_received");
    await claim("the model was shown an error result", answer?.is_error === true);
    await claim("and the turn went on to its end", eventsOf(turn, "run_completed").length === 1);
  },
};

function lastToolError({ messages }: ModelRequest): string {
  const last = messages.findLast((message) => message.role === "tool_results");
  const content = last?.role === "tool_results" ? last.results[0]?.content : undefined;
  const text = typeof content === "string" ? content : "nothing";
  return text.replace(/;.*/s, ".");
}

/** A provider that is too busy once. */
const retry: Scene = {
  title: "A provider in trouble",
  story: "Scripted: the first call is refused with status 429 and the wish to be asked again in 0.7 s.",
  play: async ({ openScripted, watch, claim }) => {
    const failure = {
      kind: "rate_limited",
      message: "429: too many requests",
      status: 429,
      retryAfterMs: RETRY_AFTER_MS,
    } as const;
    const runtime = await openScripted((_request, index) =>
      index === 0 ? { ends: { failure } } : { text: ["Here ", "I ", "am, ", "a ", "little ", "later."] },
    );
    const turn = await watch("Are you there?", (prompt) => runtime.createSessionStreaming(prompt));
    const [again] = eventsOf(turn, "retrying");
    await claim("the wait was announced, and was the one asked for", again?.delay_ms === RETRY_AFTER_MS);
    await claim("and the turn has its answer", turn.result.text.endsWith("later."));
  },
};

const TOKENS_MAX = 360;

const FURTHER_PROMPTS = [
  "Its port is 8443.",
  "What is the staging server called?",
  "Which port?",
  "Thank you.",
  "What do you know so far?",
];

/** A budget that warns, then ends the talk without breaking it. */
const budget: Scene = {
  title: "A budget",
  story: `The offline model again, with ${TOKENS_MAX} tokens for the whole session.`,
  play: async ({ runtime, watch, claim }) => {
    const limits = { toolPreset: "none", budgetLimits: { max_tokens: TOKENS_MAX } } as const;
    let turn = await watch("The staging server is called heron.", (prompt) =>
      runtime.createSessionStreaming(prompt, limits),
    );
    const session = runtime.session(turn.result.sessionId);
    const events = [...turn.events];
    for (const question of FURTHER_PROMPTS) {
      if (turn.result.terminalCauseKind !== undefined) break;
      turn = await watch(question, (prompt) => session.stream(prompt));
      events.push(...turn.events);
    }
    const warning = events.findIndex(({ type }) => type === "budget_warning");
    const end = events.findIndex((event) => event.type === "run_completed" && event.terminal_cause_kind !== undefined);
    await claim("a warning came at 80 %, before the end", warning >= 0 && warning < end);
    await claim("the answer that crossed the limit was kept", turn.result.text !== "");
    await claim("the result says why it ended", turn.result.terminalCauseKind === "budget_exhausted");
  },
};

const RELEASE = {
  type: "object",
  properties: {
    owner: { type: "string", description: "who owns the rollback plan" },
    risk: { enum: ["low", "medium", "high"] },
  },
  required: ["owner", "risk"],
  additionalProperties: false,
};

/** JSON that a program can rely on. */
const structuredOutput: Scene = {
  title: "Structured output",
  story: "With a JSON schema a turn ends in a value that matches it, or says why it could not.",
  play: async ({ runtime, watch, show, claim }) => {
    const turn = await watch("The owner of the rollback plan is Mara. The risk is high.", (prompt) =>
      runtime.createSessionStreaming(prompt, { toolPreset: "none", outputSchema: RELEASE }),
    );
    const output = turn.result.structuredOutput;
    await show(output);
    await claim("the value was checked against the schema", eventsOf(turn, "extraction_succeeded").length === 1);
    const text = JSON.stringify(output ?? "");
    await claim("and holds what was said", text.includes("Mara") && text.includes("high"));
  },
};

/** One thing to watch. It claims what it shows, and the claims are checked. */
export interface Scene {
  readonly title: string;
  readonly story: string;
  play(stage: Stage): Promise<void>;
}

/** What a scene has to play with. */
export interface Stage {
  readonly runtime: Runtime;
  openScripted(script: Parameters<typeof createScriptedModel>[0]): Promise<Runtime>;
  /** A runtime that stores its sessions; opened again, it has them. */
  openKept(options?: Pick<OpenOptions, "compaction">): Promise<Runtime>;
  /** Shows a turn as it happens. */
  watch(prompt: string, start: (prompt: string) => EventStream): Promise<Watched>;
  show(value: unknown): Promise<void>;
  table(rows: readonly Row[]): Promise<void>;
  print(word: string, sentence: string): Promise<void>;
  /** Prints a claim, and records whether it holds. */
  claim(sentence: string, isTrue: boolean): Promise<void>;
}

export type Row = Readonly<Record<string, string | number>>;

interface Watched {
  readonly events: readonly AgentEvent[];
  readonly result: TurnResult;
}

/** The events of one type, in their order. */
function eventsOf<T extends AgentEvent["type"]>(
  { events }: Watched,
  type: T,
): readonly Extract<AgentEvent, { type: T }>[] {
  return events.filter((event): event is Extract<AgentEvent, { type: T }> => event.type === type);
}

/** The scenes of `rkat demo`, in order. */
export function demoScenes(): readonly Scene[] {
  return [talk, ...createLongTalk(), longLife, parallelTools, badCall, retry, budget, structuredOutput];
}
