import type { Fields } from "@rkat/conformance/driver";
import { isRecord } from "@rkat/core/contract/json";
import { MARKER, received } from "./prompts.ts";

/** A turn that was answered, and how many answers had come when it was asked for: those come before it. */
interface AcknowledgedTurn {
  readonly marker: string;
  readonly after: number;
}

/** What is known of a session, whoever answers. */
export interface KnownSession {
  readonly id: string;
  /** Turns that were answered, in order of their answers. */
  readonly acknowledged: AcknowledgedTurn[];
  /** Markers of turns whose end is not known: they may be there or not. */
  readonly doubtful: Set<string>;
  /** "asked" from the moment somebody wants it archived. */
  archived: "no" | "asked" | "yes";
  /** Too large to be read often. */
  isHeavy: boolean;
}

/** What is known of an agent. */
export interface KnownAgent {
  readonly name: string;
  readonly remembered: string[];
  readonly doubtful: Set<string>;
}

/** What must be there, and what may be: every answer is held against it. */
export interface Book {
  readonly sessions: Map<string, KnownSession>;
  readonly agents: Map<string, KnownAgent>;
  nextMarker(): string;
  session(id: string): KnownSession;
  agent(name: string): KnownAgent;
}

export function createBook(seed: number): Book {
  const sessions = new Map<string, KnownSession>();
  const agents = new Map<string, KnownAgent>();
  let markers = 0;
  const getOr = <T>(map: Map<string, T>, key: string, make: () => T): T => {
    const known = map.get(key) ?? make();
    map.set(key, known);
    return known;
  };
  return {
    sessions,
    agents,
    nextMarker: () => {
      markers += 1;
      return `mark-${seed.toString(36)}-${markers}-end`;
    },
    session: (id) =>
      getOr(sessions, id, () => ({ id, acknowledged: [], doubtful: new Set(), archived: "no", isHeavy: false })),
    agent: (name) => getOr(agents, name, () => ({ name, remembered: [], doubtful: new Set() })),
  };
}

/**
 * What is wrong with a transcript: a turn that was answered before somebody began to read is missing, is there twice, is
 * out of order or was answered otherwise; or one is there that nobody asked for.
 */
export function faultsOfHistory(known: KnownSession, before: number, { messages }: Fields): readonly string[] {
  if (!Array.isArray(messages)) return ["a history has no messages"];
  const said = messages.map((message: unknown) => ({ role: String(Object(message).role), text: textIn(message) }));
  const there = markersOf(messages);
  const answers = said.filter(({ role }) => role.includes("assistant")).map(({ text }) => text);
  const places = new Map(there.map((marker, index) => [marker, index]));
  const faults = there.length === places.size ? [] : ["a turn is there twice"];
  const stray = there.find((marker) => !known.doubtful.has(marker) && !has(known, marker));
  if (stray !== undefined) faults.push(`a turn ${stray} is there that nobody asked for`);
  let last = -1;
  const wanted = known.acknowledged.slice(0, before);
  for (const [index, { marker, after }] of wanted.entries()) {
    const place = places.get(marker);
    if (place === undefined) faults.push(`LOST the acknowledged turn ${marker}`);
    else if (!answers.some((text) => text.includes(received(marker)))) faults.push(`LOST the answer to ${marker}`);
    else if (after === index && place < last) faults.push(`${marker} is out of order`);
    last = Math.max(last, place ?? -1);
  }
  return faults;
}

function has({ acknowledged }: KnownSession, marker: string): boolean {
  return acknowledged.some((turn) => turn.marker === marker);
}

/** The markers of a transcript's prompts, in order. */
export function markersOf(messages: readonly unknown[]): readonly string[] {
  const prompts = messages.filter((message) => Object(message).role === "user");
  return prompts.flatMap((message) => MARKER.exec(textIn(message))?.[0] ?? []);
}

/** All the text of a message, wherever it stands in it. */
export function textIn(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(textIn).join(" ");
  return isRecord(value) ? Object.values(value).map(textIn).join(" ") : "";
}

/** What is wrong with a page of events: numbers that do not rise. */
export function faultsOfEvents({ events }: Fields): readonly string[] {
  if (!Array.isArray(events)) return ["a page has no events"];
  const seqs = events.map((event: unknown) => Number(Object(Object(event).cursor).sequence));
  const astray = seqs.findIndex((seq, index) => index > 0 && seq <= (seqs[index - 1] ?? 0));
  return astray < 0 ? [] : [`event ${seqs[astray]} comes after ${seqs[astray - 1]}`];
}

/** What is wrong with what a search found: a quotation of a turn under a session that did not hold it. */
export function faultsOfHits(book: Book, results: unknown): readonly string[] {
  if (!Array.isArray(results)) return ["a search answers with no list"];
  return results.flatMap((hit: unknown) => {
    const { content, session_id, score } = Object(hit);
    const [marker] = MARKER.exec(String(content)) ?? [];
    const known = book.sessions.get(String(session_id));
    if (!(Number(score) >= 0 && Number(score) <= 1)) return [`a score is ${score}`];
    if (marker === undefined || known === undefined) return [];
    const isTheirs = has(known, marker) || known.doubtful.has(marker);
    return isTheirs ? [] : [`${marker} was found under the session ${session_id}, which never said it`];
  });
}

/** What is wrong with an agent's count of its memories. */
export function faultsOfAgent(known: KnownAgent, before: number, { count }: Fields): readonly string[] {
  const most = known.remembered.length + known.doubtful.size;
  if (Number(count) < before) return [`LOST memories of ${known.name}: it has ${count} of ${before}`];
  return Number(count) > most ? [`${known.name} has ${count} memories, and was told ${most} at most`] : [];
}
