/** A text file in lines, with all that is needed to write it back byte for byte. */
export interface TextLines {
  readonly byteOrderMark: string;
  readonly lines: readonly TextLine[];
  readonly endsWithNewline: boolean;
  /** What ends an added line: the ending of the file's first line. */
  readonly newline: string;
}

export interface TextLine {
  readonly text: string;
  readonly newline: string;
}

/** Splits so that `joinLines(splitLines(text))` is `text`. */
export function splitLines(text: string): TextLines {
  const byteOrderMark = text.startsWith("\uFEFF") ? "\uFEFF" : "";
  const body = text.slice(byteOrderMark.length);
  const newline = /\r?\n/.exec(body)?.[0] ?? "\n";
  const pieces = body.split("\n");
  const unended = pieces.pop() ?? "";
  const ended = pieces.map((piece) =>
    piece.endsWith("\r") ? { text: piece.slice(0, -1), newline: "\r\n" } : { text: piece, newline: "\n" },
  );
  const lines = unended === "" ? ended : [...ended, { text: unended, newline }];
  return { byteOrderMark, lines, endsWithNewline: unended === "", newline };
}

export function joinLines({ byteOrderMark, lines, endsWithNewline }: TextLines): string {
  const body = lines.map((line) => line.text + line.newline).join("");
  const surplus = endsWithNewline ? "" : (lines.at(-1)?.newline ?? "");
  return byteOrderMark + body.slice(0, body.length - surplus.length);
}
