import type { Chunk } from "../ports/memory.ts";

/**
 * What a chunk is embedded as: its text; a short one after what was said just before it, because "yes, at eight" means
 * nothing alone. One that says something is blurred by talk before it that is about something else.
 */
export function passageFor(chunk: Chunk, before: Chunk | undefined): string {
  if (chunk.text.length > SHORT_CHARS_MAX || before === undefined || before.session_id !== chunk.session_id) {
    return chunk.text;
  }
  return `${lastChars(before.text)}\n${chunk.text}`;
}

const SHORT_CHARS_MAX = 32;
/** More would drown the chunk itself. */
const BEFORE_CHARS_MAX = 400;

function lastChars(text: string): string {
  if (text.length <= BEFORE_CHARS_MAX) return text;
  const tail = text.slice(-BEFORE_CHARS_MAX);
  return tail.slice(tail.search(/\s/) + 1);
}
