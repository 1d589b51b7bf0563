import { ERRORS, invalid, RuntimeError } from "@rkat/core/contract/error";
import type { Runtime } from "@rkat/core/create-runtime";
import { createActivity } from "../chat/activity.ts";
import { askKey, canAsk, createAsker, UNATTENDED } from "../chat/ask-person.ts";
import type { MarkdownStream } from "../chat/markdown.ts";
import { type Call, type CommandRow, command, DEFAULT_COMMAND } from "../command-row.ts";
import { ensureModel } from "../first-run.ts";
import { createPaint, type Io, interruptedExit } from "../io.ts";
import { type Opened, withRuntime, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { openActivityRow } from "../progress.ts";
import { findSession, SESSION_MISSING } from "../session-selector.ts";
import { askForTrust } from "./project.ts";
import {
  fileFlag,
  type RunFlags,
  readPrompt,
  readSchema,
  resumeFlag,
  runFlags,
  stdinFlag,
  withFiles,
  withHooksOverride,
} from "./run-flags.ts";
import {
  finishTurn,
  judge,
  resumeSession,
  startSession,
  type Turn,
  turnChange,
  watchTurn,
  withSessionRef,
} from "./start-turn.ts";
import { createEventsView, createJsonView, createTextView, type TextViewOptions, type TurnView } from "./turn-view.ts";

const EXIT_CODES = [
  "0 done · 2 wrong input · 20 the provider failed · 21 a budget ran out · 31 the store failed",
  "30 the output does not match the schema, or too many model calls · 22 a hook refused the step",
  "41 no skill has this name · 42 a skill cannot be read · 130 interrupted",
] as const;

/** `rkat run`, which is also meant when no command is named. */
export const runRow = command(`${DEFAULT_COMMAND} [PROMPT…]`, {
  text: 'Ask a model, as rkat "PROMPT" does: it answers, uses the tools it is allowed, and stops.',
  usage: "PROMPT… [options]",
  flags: () => runFlags([resumeFlag(), fileFlag(), stdinFlag()]),
  examples: [
    ['rkat run "what time is it?" -m offline', "no key, no network"],
    ['git diff | rkat "review this change"', "piped text becomes context"],
    ['rkat --resume "and the tests?"', "continue the last session"],
    ['rkat "fix the failing test" -t workspace', "with files and a shell"],
    ['rkat "who is Ada?" --schema person.json', "JSON that matches a schema"],
    ['rkat "plan a trip" --max-tokens 10000 -d 30s', "with budgets"],
  ],
  notes: [
    ["Approval", "a shell and patches run without asking, as in a script; --ask '*' and rkat chat ask first"],
    ["Exit codes", ...EXIT_CODES],
  ],
  run: (call: Call<RunFlags>) => runWords(call, call.self.args),
});

/** `rkat resume` and `rkat continue`; without a session, a person chooses one and talks in it. */
export function resumeRows(
  talk: (invocation: Invocation, flags: RunFlags) => Promise<number>,
): readonly [CommandRow, CommandRow] {
  const flags = () => runFlags([fileFlag(), stdinFlag()]);
  const notes = [["Exit codes", ...EXIT_CODES, "10 there is no such session · 11 it is running a turn"]] as const;
  return [
    command("resume [SESSION] [PROMPT…]", {
      text: "Continue a session with a further turn. Without a prompt it finishes a turn whose process ended, or, on a terminal, opens a chat in the session, or in one that you choose.",
      usage: "[SESSION PROMPT…] [options]",
      flags,
      examples: [
        ['rkat resume 019a2b3c "and the tests?"', "by the beginning of its id"],
        ['rkat resume ~1 "go on"', "the one before the last"],
        ["rkat resume ~1", "finish its last turn, if its process ended before the turn did"],
        ["rkat resume", "choose one from a list, and chat in it"],
      ],
      notes,
      run: async (call: Call<RunFlags>) => {
        const { invocation, io, flags, self } = call;
        const [session, ...words] = self.args;
        const prompt = session === undefined ? "" : await readPrompt(io, words, flags.stdin);
        if (prompt !== "") return runPrompt(call, prompt, session);
        if (session !== undefined && (await finishesTurn(call, session))) return;
        requirePerson(io, flags);
        invocation.exitWith(await talk(invocation, session === undefined ? flags : { ...flags, resume: session }));
      },
    }),
    command("continue [PROMPT…]", {
      text: "Continue the last session with a further turn; rkat c is the same.",
      also: ["c"],
      usage: "PROMPT… [options]",
      flags,
      examples: [['rkat c "and the tests?"', "with the model and tools it had"]],
      notes,
      run: (call: Call<RunFlags>) => runWords(call, call.self.args, "last"),
    }),
  ];
}

async function runWords(call: Call<RunFlags>, words: readonly string[], resume?: string): Promise<void> {
  refuseContradictions(call.flags);
  const prompt = await readPrompt(call.io, words, call.flags.stdin);
  if (prompt === "") throw invalid('there is no prompt: write one, like rkat run "hello", or pipe one in');
  return runPrompt(call, prompt, resume);
}

async function runPrompt({ invocation, flags }: Call<RunFlags>, prompt: string, resume = flags.resume): Promise<void> {
  invocation.exitWith(await runTurn(invocation, prompt, resume === undefined ? flags : { ...flags, resume }));
}

/** Finishes the unfinished turn of a session; false if it has none and a person can chat in it. */
async function finishesTurn({ invocation, flags, io }: Call<RunFlags>, session: string): Promise<boolean> {
  return withSessions(invocation, async (opened) => {
    const sessionId = await findSession(opened, session);
    const { unfinished_turn } = await opened.runtime.dispatch("readSession", { session_id: sessionId });
    if (unfinished_turn === undefined) {
      if (canAsk(io)) return false;
      const message = `session ${sessionId} has no unfinished turn; to continue it, write a prompt`;
      throw new RuntimeError("SESSION_NOT_RUNNING", message);
    }
    const attended = canAsk(io) ? {} : { unattended: UNATTENDED };
    const turn = finishTurn(opened, { sessionId, signal: io.interrupt, ...attended });
    invocation.exitWith(await showTurn(invocation, opened, flags, turn));
    return true;
  });
}

/** Throws where no person can choose a session. */
function requirePerson(io: Io, { file }: RunFlags): void {
  if (!canAsk(io)) throw invalid(SESSION_MISSING);
  if (file.length > 0) throw invalid("--file goes with a prompt; write a session and one");
}

async function runTurn(invocation: Invocation, asked: string, given: RunFlags): Promise<number> {
  const { io } = invocation;
  const flags = await withHooksOverride(given, io.cwd);
  const { resume } = flags;
  refuseContradictions(flags);
  const prompt = await withFiles(asked, flags.file, io.cwd);
  const outputSchema = await readSchema(flags.schema, io.cwd);
  await askForTrust(invocation);
  if (!(await ensureModel(invocation, flags))) return ERRORS.INVALID_PARAMS.exit;
  const open = resume === undefined ? withRuntime : withSessions;
  return open(invocation, async (opened) => {
    if (resume === undefined) await mentionMissingMemory(io, opened.runtime, flags);
    const turn = { prompt, signal: io.interrupt, ...(canAsk(io) ? {} : { unattended: UNATTENDED }) };
    const started =
      resume === undefined
        ? startSession(opened, { ...turn, flags, outputSchema })
        : resumeSession(opened, {
            ...turn,
            sessionId: await findSession(opened, resume),
            change: turnChange(flags, outputSchema),
          });
    return showTurn(invocation, opened, flags, started);
  });
}

async function showTurn(
  { io }: Invocation,
  opened: Opened,
  flags: RunFlags,
  { stream, limits }: Turn,
): Promise<number> {
  const { io: above, row } = openActivityRow(io);
  const asker = createAsker(above, opened.runtime.dispatch, (question, over) => askKey(io, question, over));
  const activity = createActivity(row);
  activity.begin(`asking ${flags.model ?? opened.config.agent.model ?? "the model"}`);
  const result = await watchTurn({
    stream,
    view: await chooseView(above, flags),
    complete: withSessionRef(opened),
    onEvent: (event) => {
      asker.onEvent(event);
      activity.onEvent(event);
    },
  }).finally(activity.end);
  const verdict = judge(result, limits);
  if (verdict.sentence !== undefined) io.stderr.write(`${createPaint(io.stderr, io.env).yellow(verdict.sentence)}\n`);
  // After Ctrl-C the exit code is that of the interrupt, whatever the turn's outcome.
  return verdict.exit === 0 ? 0 : (interruptedExit(io) ?? verdict.exit);
}

export function refuseContradictions({ events, output, stream }: RunFlags): void {
  const refuse = (message: string) => invalid(message);
  if (events && output === "text") throw refuse("--events prints JSON; leave out --output text");
  if (stream && output === "json") throw refuse("--stream prints text; to follow a turn in JSON use --events");
}

/** Warns where the preset includes memory and there is no memory store. */
export async function mentionMissingMemory(io: Io, runtime: Runtime, { tools, yolo }: RunFlags): Promise<void> {
  if (tools !== "full" && yolo !== true) return;
  const { capabilities } = await runtime.dispatch("readCapabilities", {});
  const memory = capabilities.find(({ id }) => id === "memory_store");
  if (memory?.status === "Available") return;
  io.stderr.write("This rkat has no memory store, so the turn runs without memory_search.\n");
}

export async function chooseView(
  io: Io,
  flags: RunFlags,
  own: Pick<TextViewOptions, "remark" | "isStaged"> = {},
): Promise<TurnView> {
  const isVerbose = flags.verbose === true;
  if (flags.events) return createEventsView(io);
  if (flags.output === "json") return createJsonView(io, { isVerbose });
  // With a schema stdout gets the JSON alone, unless --stream was given.
  const isStreaming = flags.stream ?? (io.stdout.isTerminal && flags.schema === undefined);
  const isRaw = flags.plain === true || !io.stdout.isTerminal || io.env.TERM === "dumb" || flags.schema !== undefined;
  const markdown = isRaw ? {} : { markdown: await openMarkdown(io) };
  return createTextView(io, { isStreaming, isVerbose, ...markdown, ...own });
}

/** Loaded on first use. */
async function openMarkdown({ stdout, env }: Io): Promise<MarkdownStream> {
  const { createMarkdownStream } = await import("../chat/markdown.ts");
  const width = (): number => stdout.columns ?? COLUMNS;
  return createMarkdownStream({ write: (text) => stdout.write(text), width, paint: createPaint(stdout, env) });
}

/** Of a terminal that does not say. */
const COLUMNS = 80;

/**
 * Ends a bare `--resume` where its value ends. The parser would take the next word for the value, whatever it is, and
 * `rkat --resume go on` asks for the last session with the prompt "go on".
 */
export function settleResume(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  const flags = end < 0 ? args : args.slice(0, end);
  const at = flags.indexOf("--resume");
  if (at < 0) return args;
  const next = flags[at + 1] ?? "";
  const [value, taken] = SELECTOR.test(next) ? [next, 2] : ["last", 1];
  return args.toSpliced(at, taken, `--resume=${value}`);
}

/** Ids begin with their time in milliseconds, so until the year 2527 they begin with 0; prompts hardly do. */
const SELECTOR = /^(?:last|~\d*|(?:[\w-]+:)?0[0-9a-f]{3}[0-9a-f-]*)$/i;
