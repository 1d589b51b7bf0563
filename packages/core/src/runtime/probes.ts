import { invalid, type RuntimeError } from "../contract/error.ts";
import type { Message } from "../contract/message.ts";
import { textsOf } from "../grounding/exactness.ts";
import { type Specific, specificsOf } from "../grounding/specifics.ts";
import type { Placed } from "../state/context.ts";

/** A question about the transcript and the words that answer it. */
export interface Probe {
  readonly query: string;
  readonly expects: string;
}

const PROBES_MAX = 24;
/** The newest messages usually stay in the context, so they are not probed. */
const SHARE_ASKED = 0.8;
const QUERY_WORDS_MIN = 3;
const QUERY_WORDS_MAX = 14;
const EXPECTS_CHARS_MIN = 3;
/** Longer messages are not searched for the line of a specific. */
const TEXT_CHARS_MAX = 64 * 1_024;

/**
 * Questions about specifics that occur in one message only: the other words of their line, in order. Deterministic for
 * a log.
 */
export async function probesOf(transcript: readonly Placed[]): Promise<readonly Probe[]> {
  const early = transcript.slice(0, Math.floor(transcript.length * SHARE_ASKED));
  const texts = transcript.map(({ seq, message }) => ({ seq, text: textsOf(message).join("\n") }));
  const found = await specificsOf(early, () => undefined);
  const probes: Probe[] = [];
  const wanted = spread(found.filter(isAskable), PROBES_MAX * CANDIDATES_FOR_ONE);
  for (const { text, seq } of wanted) {
    const saying = texts.filter((one) => one.text.includes(text));
    if (saying.length !== 1 || saying[0]?.seq !== seq) continue;
    const query = questionAbout(saying[0].text, text);
    if (query !== undefined) probes.push({ query, expects: text });
  }
  return spread(probes, PROBES_MAX);
}

const CANDIDATES_FOR_ONE = 12;

function isAskable({ kind, text }: Specific): boolean {
  return kind !== "rule" && kind !== "ask" && text.length >= EXPECTS_CHARS_MIN;
}

function spread<T>(list: readonly T[], max: number): readonly T[] {
  if (list.length <= max) return list;
  return Array.from({ length: max }, (_, index) => list[Math.floor((index * list.length) / max)]).flatMap((one) =>
    one === undefined ? [] : [one],
  );
}

function questionAbout(text: string, specific: string): string | undefined {
  const at = text.slice(0, TEXT_CHARS_MAX).indexOf(specific);
  if (at < 0) return undefined;
  const end = text.indexOf("\n", at + specific.length);
  const line = text.slice(text.lastIndexOf("\n", at) + 1, end < 0 ? undefined : end);
  const words =
    line.replaceAll(specific, " ").match(/[\p{L}\p{N}_.-]{2,}|\p{Script=Han}|[\p{sc=Hira}\p{sc=Kana}]/gu) ?? [];
  if (words.length < QUERY_WORDS_MIN) return undefined;
  return words.slice(0, QUERY_WORDS_MAX).join(" ");
}

export function isSaid(messages: readonly Message[], expects: string): boolean {
  return messages.some((message) => textsOf(message).some((text) => text.includes(expects)));
}

/** Reads written probes; throws INVALID_PARAMS with the file and row. */
export function readProbes(text: string, name: string): readonly Probe[] {
  const advice = 'write a list of {"query": "what is asked", "expects": "words of the answer"}';
  const refuse = (what: string): RuntimeError => invalid(`${name}: ${what}; ${advice}`);
  let rows: unknown;
  try {
    rows = JSON.parse(text);
  } catch {
    throw refuse("it is not JSON");
  }
  if (!Array.isArray(rows)) throw refuse("it is no list");
  if (rows.length > ROWS_MAX) throw refuse(`it has more than ${ROWS_MAX} rows`);
  return rows.map((row: unknown, index) => {
    const { query, expects }: { query?: unknown; expects?: unknown } = Object(row);
    if (isText(query) && isText(expects)) return { query, expects };
    throw refuse(`row ${index + 1} is no probe`);
  });
}

const ROWS_MAX = 1_000;

function isText(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "";
}
