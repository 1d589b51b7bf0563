import { TextDecoder } from "node:util";

/** Characters kept of each output stream: the end, where a command says how it went. */
export const OUTPUT_CHARS_MAX = 100_000;

export interface OutputTail {
  push(bytes: Uint8Array): void;
  /** To be called once, after the last byte. */
  end(): void;
  read(): {
    readonly text: string;
    /** Whether bytes that are not UTF-8 were replaced. */
    readonly isLossy: boolean;
    readonly charsTotal: number;
  };
}

/** Keeps the end of a stream, in memory that does not grow with it. */
export function createOutputTail(charsMax = OUTPUT_CHARS_MAX): OutputTail {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  // A second decoder only judges: a replacement character may also have been in the output itself.
  const judge = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let isLossy = false;
  let kept = "";
  let charsTotal = 0;

  const accept = (bytes: Uint8Array | undefined) => {
    const streaming = { stream: bytes !== undefined };
    isLossy ||= !isValid(judge, bytes, streaming);
    const text = decoder.decode(bytes, streaming);
    charsTotal += text.length;
    kept += text;
    // Cut at twice the bound, not at each push: many small writes would copy the tail every time.
    if (kept.length > 2 * charsMax) kept = tailOf(kept, charsMax);
  };

  return {
    push: accept,
    end: () => accept(undefined),
    read: () => ({ text: tailOf(kept, charsMax), isLossy, charsTotal }),
  };
}

function isValid(judge: TextDecoder, bytes: Uint8Array | undefined, streaming: { readonly stream: boolean }): boolean {
  try {
    judge.decode(bytes, streaming);
    return true;
  } catch {
    return false;
  }
}

function tailOf(text: string, charsMax: number): string {
  // Half a surrogate pair is not a character: drop it rather than show a broken one.
  return text.slice(-charsMax).replace(/^[\uDC00-\uDFFF]/, "");
}
