// A process that runs one job with one driver: host.ts DRIVER JOB. It tells its parent of each turn, and at last what it spent.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { Agent, AgentTool, Open, Said, Setting } from "./driver.ts";

export interface Job {
  readonly baseUrl: string;
  readonly folder?: string;
  readonly database?: string;
  readonly sessions: number;
  readonly turns: number;
  /** Conversations of as many turns before, which are not counted. */
  readonly warmUps: number;
  /** A session of an earlier process to continue, in place of new ones. */
  readonly session?: string;
  /** No further turn is begun after this much CPU. */
  readonly cpuMsMax?: number;
  /** Only answer with what is kept of the session. */
  readonly reads?: boolean;
  /** The address of a payment service: one turn with its tools, in the project's way to survive the end of a process. */
  readonly orders?: string;
  /** The turns are those of an agent with commands to run, which this address knows. */
  readonly commands?: { readonly address: string; readonly windowTokens: number };
  /** What is learnt and then asked for, with vectors of this server. */
  readonly recall?: Recalling;
}

interface Recalling {
  readonly embeddings: NonNullable<Setting["embeddings"]>;
  readonly talks: readonly (readonly Said[])[];
  readonly questions: readonly string[];
  readonly count: number;
}

/** What is found for a question: so many messages, and what a model is given by default. */
export interface Found {
  readonly best: readonly string[];
  readonly given: readonly string[];
}

/** What a job tells its parent. */
export type Told =
  | { readonly begun: string }
  | { readonly acknowledged: number; readonly atMs: number; readonly writtenBytes: number }
  | { readonly kept: string; readonly problem?: string }
  | { readonly found: readonly Found[] }
  | { readonly spent: Spent };

export interface Spent {
  /** CPU of all sessions, by turn. */
  readonly turnMs: number;
  /** CPU of the process from its start to its end. */
  readonly wholeMs: number;
  readonly rssBytes: number;
}

const MODEL = "local";
const SYSTEM_PROMPT = "You keep a ledger. Look a row up before you speak of it.";
export const promptOf = (turn: number): string => `What does row ${turn} say?`;

const TOOL = {
  name: "ledger_lookup",
  description: "Looks up a row of the ledger.",
  fields: { account: "string", row: "integer" },
  effects: "none",
  run: (args: Readonly<Record<string, unknown>>): string => `account ${args.account}, row ${args.row}: 12.50 EUR`,
} as const;

const PROMPT_OF_ORDER = "Pay the open order.";

function orderTools(address: string): readonly AgentTool[] {
  const tool = (name: string, effects: AgentTool["effects"]): AgentTool => ({
    name,
    description: `${name} the order.`,
    fields: { order: "string" },
    effects,
    run: async (_args, key = "") =>
      (await fetch(`${address}/${name}`, { method: "POST", body: JSON.stringify({ key }) })).text(),
  });
  return [tool("look", "idempotent"), tool("pay", "once"), tool("check", "none")];
}

function commandTool(address: string): AgentTool {
  return {
    name: "run",
    description: "Runs a command.",
    fields: { command: "string" },
    effects: "idempotent",
    run: async ({ command }) => (await fetch(`${address}/run`, { method: "POST", body: String(command) })).text(),
  };
}

if (process.send !== undefined && process.argv[1] === import.meta.filename) {
  const [, , path = "", job = ""] = process.argv;
  await run(path, JSON.parse(job));
  process.disconnect?.();
  // Some leave timers behind; what they would still do is not part of the job.
  process.exit(0);
}

async function run(path: string, job: Job): Promise<void> {
  const { open } = (await import(pathToFileURL(path).href)) as { open: Open }; // What a driver file exports.
  const setting: Setting = {
    baseUrl: job.baseUrl,
    model: MODEL,
    systemPrompt: SYSTEM_PROMPT,
    tools: toolsFor(job),
    survives: job.orders !== undefined,
    ...(job.folder !== undefined && { folder: job.folder }),
    ...(job.database !== undefined && { database: job.database }),
    ...(job.commands !== undefined && { windowTokens: job.commands.windowTokens }),
    ...(job.recall !== undefined && { embeddings: job.recall.embeddings }),
  };
  const agent = await open(setting);
  if (job.orders !== undefined) {
    const session = job.session ?? (await agent.begin());
    await tell({ begun: session });
    if (job.session === undefined) await agent.turn(session, PROMPT_OF_ORDER);
    const problem = job.session === undefined ? undefined : await agent.recover?.(session);
    await tell({ kept: await agent.kept(session), ...(problem !== undefined && { problem }) });
    return;
  }
  if (job.commands !== undefined) {
    const session = await agent.begin();
    for (let turn = 1; turn <= job.turns; turn += 1)
      await agent.turn(session, await (await fetch(`${job.commands.address}/prompt/${turn}`)).text());
    await tell({ kept: "" });
    return;
  }
  if (job.recall !== undefined) {
    await tell({ found: await recall(agent, job.recall) });
    return;
  }
  if (job.reads) {
    await tell({ kept: await agent.kept(job.session ?? "") });
    return;
  }
  for (let time = 0; time < job.warmUps; time += 1) await converse(agent, await agent.begin(), job.turns);
  const ids = job.session === undefined ? [] : [job.session];
  while (ids.length < job.sessions) ids.push(await agent.begin());
  await tell({ begun: ids[0] ?? "" });
  const startMs = cpuMs();
  const noteTurn = (acknowledged: number): Promise<void> =>
    tell({ acknowledged, atMs: cpuMs() - startMs, writtenBytes: writtenBytes() });
  const { cpuMsMax = Number.POSITIVE_INFINITY } = job;
  await Promise.all(ids.map((id, at) => converse(agent, id, job.turns, { cpuMsMax, ...(at === 0 && { noteTurn }) })));
  const turnMs = (cpuMs() - startMs) / (job.turns * job.sessions);
  const rssBytes = process.memoryUsage.rss();
  await agent.close();
  await tell({ spent: { turnMs, wholeMs: cpuMs(), rssBytes } });
}

function toolsFor({ orders, commands }: Job): readonly AgentTool[] {
  if (orders !== undefined) return orderTools(orders);
  return commands === undefined ? [TOOL] : [commandTool(commands.address)];
}

async function recall(agent: Agent, { talks, questions, count }: Recalling): Promise<readonly Found[]> {
  await agent.learn?.(talks);
  const found: Found[] = [];
  for (const question of questions) {
    const best = (await agent.find?.(question, count)) ?? [];
    found.push({ best, given: (await agent.find?.(question)) ?? [] });
  }
  return found;
}

interface Watching {
  readonly cpuMsMax?: number;
  readonly noteTurn?: (turn: number) => Promise<void>;
}

/** An answer that is not the server's ends the job. */
async function converse(
  agent: Agent,
  session: string,
  turns: number,
  { cpuMsMax = Number.POSITIVE_INFINITY, noteTurn = async () => {} }: Watching = {},
): Promise<void> {
  for (let turn = 1; turn <= turns && cpuMs() < cpuMsMax; turn += 1) {
    const text = await agent.turn(session, promptOf(turn));
    if (!text.includes("The ledger holds this row now"))
      throw new Error(`answered ${JSON.stringify(text)} in turn ${turn}`);
    await noteTurn(turn);
  }
}

/** What the process has handed to the disk, in whole pages. */
function writtenBytes(): number {
  return Number(/^write_bytes: (\d+)/m.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Resolves when the parent can read it, so that what is told is told although the process is killed next. */
function tell(told: Told): Promise<void> {
  return new Promise((resolve, reject) => {
    process.send?.(told, undefined, undefined, (error) => (error ? reject(error) : resolve()));
  });
}
