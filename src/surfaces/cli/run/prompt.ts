import { RuntimeError } from "../../../contract/error.ts";
import type { Io } from "../io.ts";

export type StdinMode = "auto" | "blob" | "off";

const STDIN_BYTES_MAX = 8 * 1024 * 1024;
/** A pipe that says nothing for so long was perhaps inherited and will never end. */
const SILENCE_MS = 2_000;

/** What the model is asked: the words of the command line, with what was piped in as their context. */
export async function readPrompt(io: Io, words: readonly string[], mode: StdinMode): Promise<string> {
  const asked = words.join(" ").trim();
  const isRead = mode === "blob" || (mode === "auto" && io.stdin.kind === "stream");
  const piped = isRead ? await readStdin(io) : "";
  if (piped.trim() === "") {
    if (asked !== "") return asked;
    throw new RuntimeError("INVALID_PARAMS", 'there is no prompt: write one, like rkat run "hello", or pipe one in');
  }
  if (asked === "") return piped;
  return `<stdin>\n${piped.replace(/\n$/, "")}\n</stdin>\n\n${asked}`;
}

async function readStdin(io: Io): Promise<string> {
  const waiting = setTimeout(() => {
    io.stderr.write("Waiting for stdin to end; --stdin off ignores it.\n");
  }, SILENCE_MS);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of io.stdin.read()) {
      clearTimeout(waiting);
      bytes += chunk.length;
      if (bytes > STDIN_BYTES_MAX) throw tooLarge();
      chunks.push(chunk);
    }
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new RuntimeError("INVALID_PARAMS", "stdin is not UTF-8 text; --stdin off ignores it", { cause });
  } finally {
    clearTimeout(waiting);
  }
}

function tooLarge(): RuntimeError {
  const message = "stdin holds more than 8 MiB; pipe in the part that matters, or let the model read the file";
  return new RuntimeError("PAYLOAD_TOO_LARGE", message);
}
