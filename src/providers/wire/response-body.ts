/** Eight times the characters an answer may have: each few of them come in an event of their own. */
const ANSWER_BYTES_MAX = 128 * 1_024 * 1_024;
const REFUSAL_BYTES_MAX = 64 * 1_024;
const REFUSAL_MS_MAX = 2_000;
const OPENING_BYTES = 64;

/** Checks the bytes of one answer as they come: throws for a web page, and where there are too many. */
export function createAnswerCheck(): (bytes: Uint8Array) => void {
  let total = 0;
  return (bytes) => {
    // By what it says, not by its header: scripts stream events as text/html, and no answer begins like a page.
    if (total === 0 && isMarkup(bytes)) throw Object.assign(new Error("a web page"), { name: "WebPageError" });
    total += bytes.length;
    if (total > ANSWER_BYTES_MAX) throw new SyntaxError(`it is larger than ${ANSWER_BYTES_MAX} bytes`);
  };
}

function isMarkup(bytes: Uint8Array): boolean {
  return new TextDecoder().decode(bytes.subarray(0, OPENING_BYTES)).trimStart().startsWith("<");
}

/** What a refusal says, or its beginning: a server may never come to its end. */
export async function readRefusal(body: ReadableStream<Uint8Array> | null): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const giveUp = (): void => void reader.cancel().catch(() => {});
  const patience = setTimeout(giveUp, REFUSAL_MS_MAX);
  const read: Uint8Array[] = [];
  try {
    for (let left = REFUSAL_BYTES_MAX; left > 0; ) {
      const { done, value } = await reader.read();
      if (done) break;
      read.push(value.subarray(0, left));
      left -= value.length;
    }
  } catch {
    // The status says that the call was refused: a connection that breaks in the explanation changes nothing.
  } finally {
    clearTimeout(patience);
    giveUp();
  }
  return Buffer.concat(read).toString("utf8");
}
