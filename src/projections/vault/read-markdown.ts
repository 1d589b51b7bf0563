import { messageOf } from "../../contract/error.ts";
import { type Markdown, parseMarkdown } from "./front-matter.ts";
import { isOfDisk, type VaultCalls } from "./vault-calls.ts";

/** What every part of the vault works with. */
export interface VaultParts {
  readonly io: VaultCalls;
  /** Told in a sentence what is left out, and why. */
  readonly warn: (sentence: string) => void;
}

/** As many as a memory may have. */
const BODY_CHARS_MAX = 1_000_000;
/** Room for front matter, and for characters of more than one byte. */
const FILE_BYTES_MAX = 4 * BODY_CHARS_MAX;

/** Undefined for what is not there, and, with a warning, for what is no text of a bearable size. */
export async function readMarkdown({ io, warn }: VaultParts, path: string): Promise<Markdown | undefined> {
  const size = await io.size(path);
  if (size === undefined) return undefined;
  if (size > FILE_BYTES_MAX) return leaveOut(TOO_LONG);
  let bytes: Uint8Array;
  try {
    bytes = await io.read(path);
  } catch (error) {
    if (!isOfDisk(error)) throw error;
    // One file that cannot be opened must not keep the others from being read.
    return leaveOut(messageOf(error));
  }
  const text = decoded(bytes);
  if (text === undefined) return leaveOut("it is not UTF-8");
  const markdown = parseMarkdown(text);
  return markdown.body.length > BODY_CHARS_MAX ? leaveOut(TOO_LONG) : markdown;

  function leaveOut(why: string): undefined {
    warn(`${path} is left out: ${why}`);
  }
}

const TOO_LONG = `it has more than ${BODY_CHARS_MAX} characters`;

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
