import { Content } from "../../contract/message.ts";

/** What a tool said, in the one form it is kept in. */
export interface ReadOutput {
  readonly content: Content;
  readonly isError: boolean;
}

/** Reads what a tool returned; undefined when it is nothing a tool may return. */
export function readOutput(returned: unknown): ReadOutput | undefined {
  if (returned === undefined) return { content: "", isError: false };
  if (typeof returned === "string") return { content: returned, isError: false };
  if (typeof returned !== "object" || returned === null || !("content" in returned)) return undefined;
  const content = Content.safeParse(returned.content);
  const isError = "isError" in returned ? (returned.isError ?? false) : false;
  return content.success && typeof isError === "boolean" ? { content: content.data, isError } : undefined;
}

const HEAD_SHARE = 0.5;

/** Cuts text that is over the limit to its head and tail around a reference to the whole. */
export async function boundText(
  text: string,
  bytesMax: number,
  keep: (text: string) => Promise<string>,
): Promise<string> {
  // A UTF-16 unit is at most three UTF-8 bytes: most outputs are cleared without encoding them.
  if (text.length * 3 <= bytesMax) return text;
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= bytesMax) return text;
  const blobId = await keep(text);
  const headBytes = Math.floor(bytesMax * HEAD_SHARE);
  const head = decodeWhole(bytes.subarray(0, headBytes));
  const tail = decodeWhole(bytes.subarray(bytes.length - (bytesMax - headBytes)));
  const cut = bytes.length - bytesMax;
  return `${head}\n[… ${cut} of ${bytes.length} bytes left out here; the full output is blob ${blobId} …]\n${tail}`;
}

/** Decodes a slice; a character the cut went through is dropped rather than shown broken. */
function decodeWhole(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).replace(/^\uFFFD+|(?<!\uFFFD)\uFFFD+$/g, "");
}
