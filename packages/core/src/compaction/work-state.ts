import type { WorkState } from "../contract/compaction.ts";
import { exitCodeIn } from "../contract/entry.ts";
import { splitPiped, type ToolResult, type ToolUseBlock } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import type { Placed } from "../state/context.ts";
import type { WholeState } from "../state/whole-state.ts";
import { skillIn } from "../turn/skills.ts";
import { contentText, contentTokens } from "../turn/tokens.ts";
import { withoutMarkers, workStateText } from "./shown-messages.ts";

type Line = WorkState["lines"][number];

/** What the tool calls of a transcript did, each by its name and the newest last. */
interface Work {
  readonly tasks: Map<string, { seq: number; subject: string; status: string }>;
  readonly files: Map<string, { seq: number; verb: string }>;
  readonly commands: Map<string, { seq: number; verb: string; end: string; hasFailed: boolean }>;
  readonly jobs: Map<string, { seq: number; command: string }>;
  readonly subAgents: Map<string, { seq: number; agent: string; session: string; hasFailed: boolean }>;
  readonly skills: Map<string, { seq: number }>;
  /** Successful calls of other tools that may have changed something. */
  readonly others: Map<string, { seq: number; name: string; args: string }>;
  request: Line | undefined;
  calls: ReadonlyMap<string, ToolUseBlock["data"]>;
  callsSeq: number;
  /** How many messages of the transcript were read. */
  read: number;
}

/** Work by transcript, so that each message is read once. A rewrite makes another transcript. */
const known = new WeakMap<readonly Placed[], Work>();

function workIn(transcript: readonly Placed[]): Work {
  const work = known.get(transcript) ?? {
    tasks: new Map(),
    files: new Map(),
    commands: new Map(),
    jobs: new Map(),
    subAgents: new Map(),
    skills: new Map(),
    others: new Map(),
    request: undefined,
    calls: new Map(),
    callsSeq: 0,
    read: 0,
  };
  known.set(transcript, work);
  return work;
}

/** Reads a long transcript ahead without blocking the event loop. */
export async function readWork(
  { transcript }: Pick<WholeState, "transcript">,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<void> {
  const work = workIn(transcript);
  while (work.read < transcript.length) {
    readNext(work, transcript);
    await yieldToEventLoop();
  }
}

function readNext(work: Work, transcript: readonly Placed[]): void {
  const placed = transcript[work.read];
  work.read += 1;
  if (placed === undefined) return;
  const { seq, message } = placed;
  if (message.role === "user" && message.compaction_id === undefined)
    work.request = { seq, text: splitPiped(contentText(message.content)).asked.trim() || "(no text)" };
  if (message.role === "block_assistant") {
    work.calls = new Map(
      message.blocks.flatMap((block) => (block.block_type === "tool_use" ? [[block.data.id, block.data]] : [])),
    );
    work.callsSeq = seq;
  }
  const skill = skillIn(message);
  if (skill !== undefined) work.skills.set(skill.skill_name, { seq });
  if (message.role !== "tool_results") return;
  for (const result of message.results) {
    const call = work.calls.get(result.tool_use_id);
    if (call !== undefined) readCall(work, { seq: work.callsSeq, call, result });
  }
}

interface Called {
  readonly seq: number;
  readonly call: ToolUseBlock["data"];
  readonly result: ToolResult;
}

function readCall(work: Work, { seq, call, result }: Called): void {
  const { name } = call;
  const args: Readonly<Record<string, unknown>> = call.args;
  const output = contentText(result.content);
  if (name === "task_create" || name === "task_update") {
    const { id, subject, status } = result.is_error ? {} : jsonOf(output);
    if (ID.test(String(id)) && typeof subject === "string" && ID.test(String(status))) {
      putLast(work.tasks, String(id), { seq, subject, status: String(status) });
    }
    return;
  }
  if (name === "agent" && typeof args.task === "string") {
    const [, agent, session] = REFERENCE.exec(output.slice(-REFERENCE_CHARS_MAX)) ?? [];
    if (agent !== undefined && session !== undefined) {
      putLast(work.subAgents, args.task, { seq, agent, session, hasFailed: result.is_error });
    }
    return;
  }
  const written = result.is_error ? [] : writtenBy(name, args, output);
  for (const { path, verb } of written) putLast(work.files, path, { seq, verb });
  if (written.length > 0) return;
  if (typeof args.command !== "string" || pathIn(args) !== undefined) {
    if (result.is_error || !ID.test(name) || isReading(name)) return;
    // Omitted, not cut: the beginning of a secret would not be recognised.
    const isLong = (value: unknown): boolean => typeof value === "object" || String(value).length > ARG_CHARS_MAX;
    const short = JSON.stringify(
      Object.fromEntries(Object.entries(args).map(([key, value]) => [key, isLong(value) ? "…" : value])),
    ).slice(0, ARGS_CHARS_MAX);
    putLast(work.others, `${name} ${short}`, { seq, name, args: short });
    return;
  }
  const job = STARTED.exec(output)?.[1];
  if (job !== undefined) putLast(work.jobs, job, { seq, command: args.command });
  else {
    const place = typeof args.working_dir === "string" ? ` in ${args.working_dir}` : "";
    putLast(work.commands, args.command + place, { seq, ...endOf(result, output) });
  }
}

/** How a command ended. A shell that is not ours need not say an exit code; it did not fail unless it says so. */
function endOf({ is_error }: ToolResult, output: string) {
  const exitCode = exitCodeIn(output);
  // Perhaps it was not even run: a refused call is an error, too.
  if (exitCode === undefined && is_error) return { verb: "tried", end: ": failed", hasFailed: true };
  if (exitCode === undefined) return { verb: "ran", end: "", hasFailed: false };
  const end = exitCode === null ? "ended without an exit code" : `exit code ${exitCode}`;
  return { verb: "ran", end: `: ${end}`, hasFailed: exitCode !== 0 };
}

/** The end of a sub-agent's report. */
const REFERENCE = /\[sub-agent ([^,\]]{1,100}), session ([\w-]{1,100}), [^\]]{1,300}\]\s{0,9}$/u;
const REFERENCE_CHARS_MAX = 600;
const STARTED = /^\{"job_id":"([\w-]{1,100})","status":"running"/u;
/** Ids and names stand in lines as they are. */
const ID = /^[\w.:-]{1,128}$/u;

const PATHS = ["path", "file_path", "filePath", "filename", "target_file", "destination"];
const WRITES: ReadonlySet<string> = new Set(
  "write edit patch replace append insert save create move rename delete remove overwrite".split(" "),
);
const DELETES: ReadonlySet<string> = new Set(["delete", "remove"]);
/** Sub-commands of editing tools that only read. */
const READS: ReadonlySet<unknown> = new Set(["view", "read", "list", "undo_edit"]);

/** The files that a call wrote: those of a patch as it reports them, else the path of a tool whose name says that it writes. */
function writtenBy(name: string, args: Readonly<Record<string, unknown>>, output: string) {
  if (name === "apply_patch") {
    return output.split("\n").flatMap((line) => {
      const [, kind, path] = /^([AMD]) (.+)$/u.exec(line) ?? [];
      return path === undefined ? [] : [{ path, verb: kind === "D" ? "deleted" : "wrote" }];
    });
  }
  const path = pathIn(args);
  if (path === undefined || READS.has(args.command)) return [];
  const words = wordsOf(name);
  if (!words.some((word) => WRITES.has(word))) return [];
  return [{ path, verb: words.some((word) => DELETES.has(word)) ? "deleted" : "wrote" }];
}

function wordsOf(name: string): readonly string[] {
  return name
    .replaceAll(/([a-z])([A-Z])/gu, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/u);
}

const ARG_CHARS_MAX = 100;
const ARGS_CHARS_MAX = 2_000;

/** Whether the name of a tool says that it only reads; other tools may have changed something. */
function isReading(name: string): boolean {
  const words = wordsOf(name);
  return words.some((word) => LOOKS.has(word)) && !words.some((word) => WRITES.has(word));
}

const LOOKS: ReadonlySet<string> = new Set(
  "read get list search find fetch view show query look describe grep check count status datetime load".split(" "),
);

function pathIn(args: Readonly<Record<string, unknown>>): string | undefined {
  const path = PATHS.map((name) => args[name]).find((value) => typeof value === "string");
  return typeof path === "string" ? path : undefined;
}

function putLast<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
}

/** A task has at most this many characters of JSON. */
const JSON_CHARS_MAX = 100_000;

function jsonOf(text: string): Readonly<Record<string, unknown>> {
  if (text.length > JSON_CHARS_MAX) return {};
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

type Source = Pick<WholeState, "readOnlyTools" | "transcript" | "jobs" | "children" | "approval" | "openCallsSeq">;

/** A fact whose line is written if it is needed: a long session has thousands. */
interface Fact {
  readonly seq: number;
  text(): string;
}

/** The facts about the work by class, the most relevant class first; within a class the newest first. */
function factsOf(state: Source, redact: (text: string) => string): readonly (readonly Fact[])[] {
  const work = workIn(state.transcript);
  while (work.read < state.transcript.length) readNext(work, state.transcript);
  const quote = (text: string): string =>
    JSON.stringify(oneLine(redact(text.slice(0, READ_CHARS_MAX)), QUOTED_CHARS_MAX));
  const newest = <V>(map: ReadonlyMap<string, V>): readonly (readonly [string, V])[] => [...map].reverse();
  const { approval, openCallsSeq } = state;
  const waiting = approval?.asked.calls.filter(({ id }) => !approval.answers.has(id)) ?? [];
  const running = [
    ...waiting.map(({ name, args }) => ({
      seq: approval?.seqs[0] ?? 0,
      text: () => `waiting for approval ${approval?.asked.approval_id}: ${name} ${quote(JSON.stringify(args))}`,
    })),
    ...state.jobs
      .filter(({ status }) => status === "running")
      .map(({ jobId, seq }) => {
        const started = work.jobs.get(jobId);
        const command = started === undefined ? "" : `: ${quote(started.command)}`;
        return { seq: started?.seq ?? seq, text: () => `running job ${jobId}${command}` };
      }),
    ...state.children
      .filter(({ isOpen }) => isOpen)
      .map(({ agent, childId }) => ({
        seq: openCallsSeq,
        text: () => `running sub-agent ${quote(agent)}, session ${childId}`,
      })),
  ];
  const tasks = (isDone: boolean) =>
    newest(work.tasks)
      .filter(([, { status }]) => (status === "completed") === isDone)
      .map(([id, { seq, subject, status }]) => ({
        seq,
        text: () =>
          isDone ? `task done: ${quote(subject)}` : `task ${id} ${status.replace("_", " ")}: ${quote(subject)}`,
      }));
  const commands = (failed: boolean) =>
    newest(work.commands)
      .filter(([, { hasFailed }]) => hasFailed === failed)
      .map(([command, { seq, verb, end }]) => {
        return { seq, text: () => `${verb} ${quote(command)}${end}${failed ? ", NOT successful since" : ""}` };
      });
  const statuses = new Map(state.jobs.map(({ jobId, status }) => [jobId, status]));
  const ended = newest(work.jobs).flatMap(([id, { seq, command }]) => {
    const status = statuses.get(id) ?? "running";
    return status === "running"
      ? []
      : [{ seq, text: () => `job ${id} ${status.replace("_", " ")}: ${quote(command)}` }];
  });
  return [
    running,
    tasks(false),
    commands(true),
    newest(work.files).map(([path, { seq, verb }]) => ({ seq, text: () => `${verb} ${quote(path)}` })),
    tasks(true),
    [...commands(false), ...ended],
    newest(work.others)
      .filter(([, { name }]) => !state.readOnlyTools.has(name))
      .map(([, { seq, name, args }]) => ({ seq, text: () => `called ${name} with ${quote(args)}` })),
    newest(work.subAgents).map(([task, { seq, agent, session, hasFailed }]) => ({
      seq,
      text: () => `sub-agent ${quote(agent)}, session ${session}, ${hasFailed ? "failed" : "finished"}: ${quote(task)}`,
    })),
    newest(work.skills).map(([name, { seq }]) => ({ seq, text: () => `skill ${quote(name)} is loaded` })),
  ];
}

const QUOTED_CHARS_MAX = 160;
/** Of a text; a secret that this cuts is not shown. */
const READ_CHARS_MAX = 2_000;
const REQUEST_CHARS_MAX = 400;

/** The beginning of a text on one line, which it cannot end. */
export function oneLine(text: string, charsMax: number): string {
  const read = text.slice(0, charsMax * 2);
  const line = read
    .replaceAll(/[\p{C}\p{Z}\s]+/gu, " ")
    .replaceAll(/\[(?= ?(?:work state|end of|said by tools))/giu, "(")
    .trim();
  const isWhole = line.length <= charsMax && read.length === text.length;
  return isWhole ? line : `${line.slice(0, charsMax).toWellFormed()}…`;
}

/**
 * The state of the work in at most so many tokens, computed from the log: what is running, open and failing, the last
 * request, what was written and run. Empty if no tool did anything, or it is off.
 */
export function workFor(
  state: Source,
  { workStateTokens: tokensMax }: { readonly workStateTokens: number },
  redact: (text: string) => string,
): { work_state?: WorkState } {
  const facts = tokensMax === 0 ? [] : factsOf(state, redact);
  const count = facts.reduce((sum, { length }) => sum + length, 0);
  if (count === 0) return {};
  // A line has at least one token.
  const classes = facts.map((one) => one.slice(0, tokensMax).map(lineOf));
  const { request } = workIn(state.transcript);
  const first = request && {
    seq: request.seq,
    text: `last request of the user: ${bounded(redact(request.text.slice(0, READ_CHARS_MAX)))}`,
  };
  const chosen = new Set<Line>();
  const total = count + (first === undefined ? 0 : 1);
  let left = tokensMax - contentTokens(workStateText({ lines: [], left_out: total })) - 1;
  const choose = (lines: readonly Line[], share: number): void => {
    const least = left - left * share;
    for (const line of lines) {
      // One more, because estimates are rounded down.
      const tokens = contentTokens(`- ${line.text}\n`) + 1;
      if (chosen.has(line) || left - tokens < least) continue;
      chosen.add(line);
      left -= tokens;
    }
  };
  const all = first === undefined ? classes : [[first], ...classes];
  // No class may crowd out those after it; what is left is filled in the same order.
  for (const lines of all) choose(lines, 0.5);
  for (const lines of all) choose(lines, 1);
  const lines = all.flat().filter((line) => chosen.has(line));
  return chosen.size === 0 ? {} : { work_state: { lines, left_out: total - chosen.size } };
}

/** The user's text word for word, up to a limit. */
function bounded(text: string): string {
  const said = withoutMarkers(text);
  return said.length <= REQUEST_CHARS_MAX ? said : `${said.slice(0, REQUEST_CHARS_MAX).toWellFormed()}…`;
}

function lineOf({ seq, text }: Fact): Line {
  return { seq, text: text() };
}

/** All facts about the work, the most relevant first, without blocking the event loop. */
export async function allWork(
  state: Source,
  redact: (text: string) => string,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<readonly Line[]> {
  await readWork(state, yieldToEventLoop);
  const lines: Line[] = [];
  for (const fact of factsOf(state, redact).flat()) {
    lines.push(lineOf(fact));
    await yieldToEventLoop();
  }
  return lines;
}
