import type { Clock } from "../ports/clock.ts";

export type Redact = (text: string) => string;

const MASK = "[redacted]";
const SECRET_LENGTH_MIN = 8;

/** Where a key may start: not inside a word, but after an escaped line break, tab or terminal colour. */
const START =
  "(?:(?<![A-Za-z0-9])|(?<=\\\\[bfnrt]|\\\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|(?:\\x1b|\\\\u001[bB])\\[[0-9;]{0,12}[A-Za-z]))";
const key = (shape: string): RegExp => new RegExp(`${START}${shape}`, "g");
const PRIVATE = "[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----";

/** Shapes of well-known keys; each is bounded, so that no piece of a long text hides one. */
const KEY_SHAPES: readonly RegExp[] = [
  key("(?:sk|rk|pk)[-_][A-Za-z0-9_-]{16,4096}"),
  key("xai-[A-Za-z0-9_-]{20,4096}"),
  key("(?:gsk|hf)_[A-Za-z0-9]{20,4096}"),
  key("AIza[0-9A-Za-z_-]{30,4096}"),
  key("(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,4096}"),
  key("(?:github_pat|glpat|npm)[-_][A-Za-z0-9_]{20,4096}"),
  key("xox[abprs]-[A-Za-z0-9-]{10,4096}"),
  key("AKIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
  /(?<=\bBearer\s)[A-Za-z0-9._~+/-]{16,4096}={0,8}/gi,
  // A truncated key is as secret as a whole one.
  new RegExp(`-----BEGIN ${PRIVATE}(?:[A-Za-z0-9+/=\\s\\\\:,.()]|-(?!----)){0,16384}(?:-----END ${PRIVATE})?`, "g"),
  /(?<=:\/\/[^\s/:@"'<>]{0,100}:)[^\s/@"'<>]{1,200}(?=@)/g,
];

/** Masks the given values, also as JSON writes them, and everything shaped like a key. */
export function createRedactor(secrets: readonly string[]): Redact {
  const written = secrets.flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]);
  // Longest first: otherwise masking a contained secret would leave the rest of the longer one.
  const values = [...new Set(written)]
    .filter((secret) => secret.length >= SECRET_LENGTH_MIN)
    .sort((a, b) => b.length - a.length);
  return (text) => {
    let safe = text;
    for (const value of values) if (safe.includes(value)) safe = safe.replaceAll(value, MASK);
    for (const shape of KEY_SHAPES) safe = safe.replace(shape, MASK);
    return safe;
  };
}

const PIECE_CHARS = 64 * 1_024;
/** Longer than any secret. */
const MARGIN_CHARS = 20 * 1_024;
const CUTS_TRIED_MAX = 8;

/** Redacts a text of any length in pieces; a cut never divides a secret. */
export async function redactSlowly(
  redact: Redact,
  text: string,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<string> {
  const pieces: string[] = [];
  let start = 0;
  for (let end = PIECE_CHARS; start < text.length; ) {
    await yieldToEventLoop();
    const cut = end >= text.length ? text.length : safeCut(redact, text, { start, end });
    if (cut === undefined) {
      // Adjacent secrets: extend the piece until it ends beside them.
      end += PIECE_CHARS;
      continue;
    }
    pieces.push(redact(text.slice(start, cut)));
    start = cut;
    end = cut + PIECE_CHARS;
  }
  return pieces.join("");
}

/** A line or word boundary where masking gives the same result whether or not the text is divided. */
function safeCut(redact: Redact, text: string, piece: { start: number; end: number }): number | undefined {
  let last = piece.end;
  for (let tried = 0; tried < CUTS_TRIED_MAX && last > piece.start + PIECE_CHARS / 2; tried += 1) {
    const half = text.slice(piece.start + PIECE_CHARS / 2, last);
    const border = Math.max(half.lastIndexOf("\n"), half.lastIndexOf(" ")) + 1;
    const cut = border > 0 ? piece.start + PIECE_CHARS / 2 + border : last;
    const [before, after] = [text.slice(Math.max(0, cut - MARGIN_CHARS), cut), text.slice(cut, cut + MARGIN_CHARS)];
    if (redact(before) + redact(after) === redact(before + after)) return cut;
    last = cut - 1;
  }
  return undefined;
}
