import { TakeNote } from "../../../contract/agent/agent.ts";
import { RuntimeError } from "../../../contract/error.ts";
import { invalidInput } from "../../../contract/input/invalid-input.ts";
import { fieldsOf } from "../field-flags.ts";
import { type Io, writeJson } from "../io.ts";
import { withRuntime } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { counted } from "../plain-text.ts";
import { isPiped, textLines } from "./piped-text.ts";

export interface NoteFlags {
  readonly json?: boolean;
}

interface Given extends NoteFlags {
  readonly agent: string;
  readonly words: readonly string[];
}

/** Keeps what was written, or all that is piped in, as a private note of an agent. */
export async function takeNote(invocation: Invocation, { agent, words, ...flags }: Given): Promise<void> {
  const { io } = invocation;
  const content = await noteText(io, words);
  if (content.trim() === "" && words.length === 0) throw new RuntimeError("INVALID_PARAMS", nothingSaid(agent));
  const { data: note, error } = TakeNote.safeParse({ agent, content, ...fieldsOf("takeNote", flags) });
  // What is refused makes no folder.
  if (note === undefined) throw invalidInput(error);
  await withRuntime(invocation, async ({ runtime }) => {
    const taken = await runtime.dispatch("takeNote", note);
    if (flags.json) writeJson(io, taken);
    else io.stdout.write(`Noted. ${agent} has ${counted(taken.notes, "note")}.\n`);
  });
}

/** More than any note may hold: what is read of a longer text is enough to refuse it. */
const CHARS_READ_MAX = 2_000_000;

async function noteText(io: Io, words: readonly string[]): Promise<string> {
  if (!isPiped(io, words)) return words.join(" ");
  let text = "";
  for await (const line of textLines(io, words)) {
    text += `${line}\n`;
    if (text.length > CHARS_READ_MAX) break;
  }
  return text.trimEnd();
}

function nothingSaid(agent: string): string {
  return `there is nothing to note: write it, like rkat agent note ${agent} "The pond freezes in May", or pipe it in`;
}
