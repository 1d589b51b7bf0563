import type { Message } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import { type Atom, atomsIn } from "../text/atoms.ts";
import { canonical, canonicalPiece } from "../text/canonical.ts";
import { collectOffers, figuresIn } from "../text/numbers.ts";
import { stemsOf } from "../text/words.ts";
import { blocksOf } from "./cut-sentences.ts";
import { holdsWhole, piecesOf, wholeTextsOf } from "./exactness.ts";
import { endsOf } from "./specifics.ts";
import { spellingsOf } from "./statement.ts";

/** A sentence of a summary and its source messages, the likeliest first; none if no message contains it. */
export interface SummarySource {
  readonly text: string;
  readonly seqs: readonly number[];
}

export interface SummaryToRead {
  readonly summary: string;
  readonly messages: readonly NumberedMessage[];
  /** The sentences to find; all of the summary's by default. */
  readonly only?: readonly string[];
}

interface NumberedMessage {
  readonly seq: number;
  readonly message: Message;
}

const SENTENCES_MAX = 500;
/** Of more messages the newest are read. */
const MESSAGES_MAX = 20_000;
const SEQS_MAX = 4;
/** Words with a common prefix of this length are taken as equal. */
const KIN_CHARS = 6;

/** The weighted share of a sentence's words that a source passage must have. */
const SAID_MIN = 0.5;
/** The same for a passage that contains the sentence's names. */
const SAID_WITH_NAME_MIN = 0.15;
/** The same if no message contains the names. */
const SAID_ALL_BUT_NAMES_MIN = 0.75;
/** One common word is coincidence. */
const WORDS_MIN = 2;
/** The share that a further message must add. */
const GAIN_MIN = 0.15;

/** Finds the source messages of each sentence of a summary, or of some, by names, numbers and words. */
export async function summarySources(
  { summary, messages, only }: SummaryToRead,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<readonly SummarySource[]> {
  const claims = claimsOf(summary, only && new Set(only));
  const wanted = new Set(claims.flatMap(({ words }) => [...words]));
  const names = new Map(claims.flatMap((claim) => [...claim.names]));
  const read: Read[] = [];
  for (const one of messages.slice(-MESSAGES_MAX)) read.push(await readMessage(one, wanted, yieldToEventLoop));
  const weightOf = createWeights(read);
  const sources: SummarySource[] = [];
  for (const claim of claims) {
    await yieldToEventLoop();
    sources.push({
      text: claim.text,
      seqs: choose(await candidatesFor(claim, read, { weightOf, names, yieldToEventLoop })),
    });
  }
  return sources;
}

interface Claim {
  readonly text: string;
  readonly words: ReadonlySet<string>;
  /** Its names, by a key that distinguishes them. */
  readonly names: ReadonlyMap<string, Finds>;
}

/** Whether a message, in canonical form and with the readings of its numbers, contains a name. */
type Finds = (text: string, offers: ReadonlySet<string>) => boolean;

function claimsOf(summary: string, only?: ReadonlySet<string>): readonly Claim[] {
  return blocksOf(summary)
    .filter(({ kind }) => kind !== "heading" || only !== undefined)
    .flatMap(({ sentences }) => sentences)
    .filter(({ text }) => only?.has(text) ?? true)
    .slice(0, SENTENCES_MAX)
    .map(({ text }) => {
      const names = new Map(atomsIn(text).map((atom) => [`${atom.kind} ${atom.text}`, finderOf(atom)]));
      return { text, words: wordsOf(text), names };
    });
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(stemsOf(text).map((stem) => stem.slice(0, KIN_CHARS)));
}

/** Built once: ten thousand messages are checked for each name. */
function finderOf({ kind, text }: Atom): Finds {
  const figures = kind === "number" ? figuresIn(text) : [];
  const spellings = kind === "number" ? [canonicalPiece(text)] : spellingsOf(text);
  return (said, offers) => {
    if (figures.length > 0 && figures.every(({ needs }) => needs.some((need) => offers.has(need)))) return true;
    return spellings.some((spelling) => holdsWhole(said, spelling));
  };
}

/** The parts of a message that the summary mentions. */
interface Read {
  readonly seq: number;
  readonly passages: readonly { readonly text: string; readonly words: ReadonlySet<string> }[];
  /** The names in it; found once a sentence may come from it. */
  names?: ReadonlySet<string>;
}

async function readMessage(
  { seq, message }: NumberedMessage,
  wanted: ReadonlySet<string>,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<Read> {
  const passages: Read["passages"][number][] = [];
  for (const text of wholeTextsOf(message).flatMap(endsOf).flatMap(piecesOf)) {
    await yieldToEventLoop();
    const words = new Set([...wordsOf(text)].filter((word) => wanted.has(word)));
    if (words.size > 0) passages.push({ text, words });
  }
  return { seq, passages };
}

async function namesIn({ passages }: Read, names: Claim["names"], yieldToEventLoop: Clock["yieldToEventLoop"]) {
  const found = new Set<string>();
  for (const { text } of names.size === 0 ? [] : passages) {
    await yieldToEventLoop();
    const said = canonical(text);
    const offers = new Set<string>();
    collectOffers(text, offers);
    for (const [key, finds] of names) if (!found.has(key) && finds(said, offers)) found.add(key);
  }
  return found;
}

/** With few messages, term rarity is smoothed by this many. */
const MESSAGES_ASSUMED = 50;

function createWeights(read: readonly Read[]): (word: string) => number {
  const holders = new Map<string, number>();
  for (const { passages } of read) {
    const words = new Set(passages.flatMap((passage) => [...passage.words]));
    for (const word of words) holders.set(word, (holders.get(word) ?? 0) + 1);
  }
  const seen = Math.max(read.length, MESSAGES_ASSUMED) + 1;
  return (word) => Math.log(1 + seen / ((holders.get(word) ?? 0) + 1));
}

/** A possible source message and its matching parts. */
interface Candidate {
  readonly seq: number;
  readonly score: number;
  /** By their share of the sentence. */
  readonly words: ReadonlyMap<string, number>;
  readonly names: readonly string[];
}

async function candidatesFor(
  claim: Claim,
  read: readonly Read[],
  by: {
    readonly weightOf: (word: string) => number;
    readonly names: Claim["names"];
    readonly yieldToEventLoop: Clock["yieldToEventLoop"];
  },
): Promise<readonly Candidate[]> {
  const total = [...claim.words].reduce((sum, word) => sum + by.weightOf(word), 0);
  const shares = new Map([...claim.words].map((word) => [word, by.weightOf(word) / total]));
  const keys = [...claim.names.keys()];
  const possible: (Candidate & { readonly covered: number })[] = [];
  for (const one of read) {
    const { covered, words } = bestPassage(one.passages, shares);
    if (covered < SAID_WITH_NAME_MIN) continue;
    one.names ??= await namesIn(one, by.names, by.yieldToEventLoop);
    const names = keys.filter((key) => one.names?.has(key));
    possible.push({ seq: one.seq, covered, score: covered + names.length / Math.max(1, keys.length), words, names });
  }
  const isKnown = keys.length === 0 || possible.some(({ names }) => names.length > 0);
  const candidates = possible.filter(({ covered, names, words }) => {
    if (names.length > 0) return true;
    return (
      covered >= (isKnown ? SAID_MIN : SAID_ALL_BUT_NAMES_MIN) && words.size >= Math.min(WORDS_MIN, claim.words.size)
    );
  });
  // Of equals the earliest.
  return candidates.sort((a, b) => b.score - a.score || a.seq - b.seq);
}

function bestPassage(passages: Read["passages"], shares: ReadonlyMap<string, number>) {
  let [covered, best] = [0, NO_WORDS];
  for (const { words } of passages) {
    let sum = 0;
    for (const [word, share] of shares) if (words.has(word)) sum += share;
    if (sum > covered) [covered, best] = [sum, words];
  }
  return { covered, words: new Map([...shares].filter(([word]) => best.has(word))) };
}

const NO_WORDS: ReadonlySet<string> = new Set();

/** The best few, each adding to those before. */
function choose(candidates: readonly Candidate[]): readonly number[] {
  const seqs: number[] = [];
  const said = new Set<string>();
  for (const { seq, words, names } of candidates) {
    if (seqs.length === SEQS_MAX) break;
    const gained = [...words].reduce((sum, [word, share]) => sum + (said.has(word) ? 0 : share), 0);
    const isNaming = names.some((name) => !said.has(name));
    if (seqs.length > 0 && !isNaming && gained < GAIN_MIN) continue;
    seqs.push(seq);
    for (const one of [...words.keys(), ...names]) said.add(one);
  }
  return seqs;
}
