import type { StreamParser, StringStream } from "@codemirror/streamparser";

/** Where a text of several lines goes on: lines that are indented by more than this. */
interface State {
  textBeyond: number | undefined;
}

/** YAML a line at a time, each sign looked at once: the mode that is there for it looks at spaces again and again. */
export const yaml: StreamParser<unknown> = {
  startState: (): State => ({ textBeyond: undefined }),
  // It is the state that was made above.
  token: (stream, state) => tokenOf(stream, state as State),
};

function tokenOf(stream: StringStream, state: State): string | null {
  if (stream.sol() && state.textBeyond !== undefined) {
    if (stream.indentation() > state.textBeyond) {
      stream.skipToEnd();
      return "string";
    }
    state.textBeyond = undefined;
  }
  const isAfterSpace = stream.sol() || stream.string[stream.pos - 1] === " ";
  if (stream.eatSpace()) return null;
  const sign = stream.next() ?? "";
  switch (sign) {
    case "#":
      if (!isAfterSpace) return null;
      stream.skipToEnd();
      return "comment";
    case '"':
    case "'":
      return quoted(stream, sign);
    case "{":
    case "}":
    case "[":
    case "]":
    case ",":
    case ":":
      return null;
    case "&":
    case "*":
    case "!":
      stream.eatWhile((one) => one !== " " && one !== ",");
      return "meta";
    case "|":
    case ">":
      stream.skipToEnd();
      state.textBeyond = stream.indentation();
      return "meta";
    default:
      return plain(stream, sign);
  }
}

function quoted(stream: StringStream, quote: string): string {
  for (let sign = stream.next(); sign !== undefined && sign !== quote; sign = stream.next())
    if (sign === "\\" && quote === '"') stream.next();
  return isKey(stream) ? "attribute" : "string";
}

function plain(stream: StringStream, first: string): string | null {
  if (first === "-" && (stream.eol() || stream.peek() === " ")) return null;
  while (!stream.eol() && !isKey(stream)) {
    const sign = stream.peek() ?? "";
    if (",]}".includes(sign) || (sign === "#" && stream.string[stream.pos - 1] === " ")) break;
    stream.next();
  }
  if (isKey(stream)) return "attribute";
  const value = stream.current().trim();
  return /^(?:true|false|null|yes|no|on|off|~|[-+]?[\d.][\d._]*(?:e[-+]?\d+)?)$/i.test(value) ? "atom" : null;
}

/** Whether a colon follows that ends a key. */
function isKey({ string, pos }: StringStream): boolean {
  return string[pos] === ":" && (string[pos + 1] === undefined || string[pos + 1] === " ");
}
