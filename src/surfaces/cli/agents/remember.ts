import { Remember } from "../../../contract/agent/agent.ts";
import { RuntimeError } from "../../../contract/error.ts";
import { invalidInput } from "../../../contract/input/invalid-input.ts";
import type { OperationInput, OperationOutput } from "../../../contract/operations.ts";
import { fieldsOf } from "../field-flags.ts";
import { type Io, interruptedExit, writeJson } from "../io.ts";
import { type Opened, withRuntime } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { counted, grouped } from "../plain-text.ts";
import { createLogLines } from "./log-lines.ts";
import { isPiped, textLines } from "./piped-text.ts";
import { createProgress } from "./progress.ts";
import { compactionSettled } from "./settled.ts";

export interface RememberFlags {
  readonly json?: boolean;
}

interface Given extends RememberFlags {
  readonly agent: string;
  readonly words: readonly string[];
}

type Memory = OperationInput<"remember">;

/** Adds what was written, or each line of what is piped in, to an agent's memories. */
export async function remember(invocation: Invocation, given: Given): Promise<void> {
  const { io, exitWith } = invocation;
  const memories = memoriesOf(io, given);
  // What is refused makes no folder.
  const first = await memories.next();
  if (first.done) throw new RuntimeError("INVALID_PARAMS", nothingSaid(given.agent));
  const progress = createProgress(io, "memories");
  const log = createLogLines(io);
  log.writeWithin(progress.aside);
  const use = async (opened: Opened): Promise<void> => {
    const tally: Tally = { added: 0 };
    try {
      await addAll(opened.runtime, { first: first.value, memories, tally, progress: progress.show });
    } catch (thrown) {
      // Whoever pipes the rest in again must know where to begin.
      if (tally.added > 0) progress.aside(() => io.stderr.write(`${sentenceOf(given, tally)}\n`));
      throw thrown;
    } finally {
      progress.clear();
    }
    await compactionSettled(opened, given.agent, io.interrupt);
    if (given.json) writeJson(io, tally.last);
    else io.stdout.write(`${sentenceOf(given, tally)}\n`);
    exitWith(interruptedExit(io) ?? 0);
  };
  await withRuntime(invocation, use, log.tell);
}

/** Written words are one memory, piped lines are one each; all of them are such as can be remembered. */
async function* memoriesOf(io: Io, { agent, words, ...flags }: Given): AsyncGenerator<Memory, undefined> {
  const fields = fieldsOf("remember", flags);
  const memory = (content: string, place: string): Memory => {
    const { data, error } = Remember.safeParse({ agent, content, ...fields });
    if (data !== undefined) return data;
    const { message } = invalidInput(error);
    throw new RuntimeError("INVALID_PARAMS", `${place}${message}`);
  };
  if (!isPiped(io, words)) {
    if (words.length > 0) yield memory(words.join(" "), "");
    return undefined;
  }
  let line = 0;
  for await (const text of textLines(io, words)) {
    line += 1;
    if (text.trim() !== "") yield memory(text.trimEnd(), `line ${line} of stdin: `);
  }
  return undefined;
}

function nothingSaid(agent: string): string {
  return `there is nothing to remember: write it, like rkat agent remember ${agent} "I saw a heron", or pipe lines in`;
}

interface Remembering {
  dispatch(name: "remember", memory: Memory): Promise<OperationOutput<"remember">>;
}

/** What has come of it so far. */
interface Tally {
  added: number;
  last?: OperationOutput<"remember">;
}

interface Adding {
  readonly first: Memory;
  readonly memories: AsyncIterable<Memory>;
  readonly tally: Tally;
  progress(added: number): void;
}

/** So many are on their way at once: they are written together, in the order they were given. */
const AHEAD_MAX = 64;

async function addAll(runtime: Remembering, { first, memories, tally, progress }: Adding): Promise<void> {
  const ahead: Promise<void>[] = [];
  const add = (memory: Memory): void => {
    const added = runtime.dispatch("remember", memory).then((remembered) => {
      tally.added += 1;
      // Their answers may come in another order than they do.
      if (remembered.count > (tally.last?.count ?? 0)) tally.last = remembered;
      progress(tally.added);
    });
    added.catch(() => {}); // It is waited for below, perhaps later than it fails.
    ahead.push(added);
  };
  try {
    add(first);
    for await (const memory of memories) {
      add(memory);
      if (ahead.length >= AHEAD_MAX) await ahead.shift();
    }
    await Promise.all(ahead);
  } finally {
    await Promise.allSettled(ahead);
  }
}

function sentenceOf({ agent }: Given, { added, last }: Tally): string {
  const count = last?.count ?? added;
  if (added === 1) return `Remembered. ${agent} has ${counted(count, "memory")}.`;
  return `Remembered ${counted(added, "memory")}. ${agent} has ${grouped(count)}.`;
}
