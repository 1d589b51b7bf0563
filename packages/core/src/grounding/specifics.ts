import type { SpecificKind } from "../contract/compaction.ts";
import { jsonIn } from "../contract/json.ts";
import { type AssistantBlock, isUntrusted, type Message, originOf } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import { atomsIn } from "../text/atoms.ts";
import { canonicalPiece, foldWidth, matchesOf, plainCase, verbatim, writtenPiece } from "../text/canonical.ts";
import { withDigits } from "../text/number-words.ts";
import { needsIn, numeralsIn } from "../text/numbers.ts";
import { type Piece, sentencesIn, sentencesOf } from "../text/sentences.ts";
import { stemSet, stemsOf } from "../text/words.ts";
import { blockTexts, leavesOf, piecesOf, textsOf, unescaped, wholeTextsOf, withKey } from "./exactness.ts";
import { STATEMENT_CHARS_MAX } from "./statement.ts";

/** Something that must stay exact to stay true, and the newest message that contains it. */
export interface Specific {
  readonly kind: SpecificKind;
  readonly text: string;
  readonly seq: number;
  /** The sentences that said it, the newest first, so that it is compared with the words it belongs to. */
  readonly said?: readonly string[];
}

interface NumberedMessage {
  readonly seq: number;
  readonly message: Message;
}

/** A longer rule or command is cut: a receipt names it without repeating it. */
export const SPECIFIC_CHARS_MAX = 200;
/** User messages come first, then the newest; anything beyond is not accounted for. */
export const SPECIFICS_MAX = 20_000;
/** A tool's output is read at both ends; its middle is rarely referred to and may be endless. */
export const RESULT_END_CHARS_MAX = 32 * 1_024;
/** A longer sentence beside one is not its counterpart. */
const BESIDE_CHARS_MAX = 120;
/** A name that is said more often is compared with its newest sentences. */
export const SAID_MAX = 4;

/** Every specific of the messages once, at its newest mention, in message order. */
export async function specificsOf(
  messages: readonly NumberedMessage[],
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<readonly Specific[]> {
  const found = new Map<string, Specific>();
  const byUser = messages.filter(({ message }) => message.role === "user");
  const byOthers = messages.filter(({ message }) => message.role !== "user");
  await collectWishes(messages, found, yieldToEventLoop);
  for (const one of [...byUser.toReversed(), ...byOthers.toReversed()]) {
    if (found.size >= SPECIFICS_MAX) break;
    for (const text of readableTexts(one.message)) {
      await yieldToEventLoop();
      collectFrom(text, one.seq, found);
    }
    for (const command of toolCommands(one.message)) add({ kind: "command", text: command, seq: one.seq }, found);
  }
  const tools = toolNames(messages);
  return [...found.values()].filter(({ text }) => !tools.has(text)).sort((a, b) => a.seq - b.seq);
}

/** Tool names look like specifics and are none: the model knows them anyway. */
function toolNames(messages: readonly NumberedMessage[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { message } of messages) {
    if (message.role !== "block_assistant") continue;
    for (const block of message.blocks) if (block.block_type === "tool_use") names.add(block.data.name);
  }
  return names;
}

/** Rules of every user message and unanswered asks; the newest messages first. */
async function collectWishes(
  messages: readonly NumberedMessage[],
  into: Map<string, Specific>,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<void> {
  let replies: string[] = [];
  let isLast = true;
  for (const { seq, message } of messages.toReversed()) {
    if (message.role !== "user") {
      if (message.role === "block_assistant") replies.push(...message.blocks.flatMap(spokenText).flatMap(piecesOf));
      continue;
    }
    const texts = textsOf(message);
    const asked: string[] = [];
    const rules: string[] = [];
    for (const text of texts) {
      await yieldToEventLoop();
      asked.push(...asksIn(text));
      rules.push(...rulesIn(text));
    }
    const asks = isLast ? lastAsksOf(asked, texts) : await unansweredOf(asked, replies, yieldToEventLoop);
    for (const ask of asks) add({ kind: "ask", text: ask, seq }, into);
    for (const rule of isUntrusted(originOf(message)) ? [] : rules) add({ kind: "rule", text: rule, seq }, into);
    replies = [];
    isLast = false;
  }
}

function spokenText(block: AssistantBlock): readonly string[] {
  return block.block_type === "text" ? [block.data.text] : [];
}

/** The texts that specifics are taken from: of tools the values, not the keys of their arguments and results. */
function readableTexts(message: Message): readonly string[] {
  if (message.role === "tool_results") return wholeTextsOf(message).map(decoded).flatMap(endsOf).flatMap(piecesOf);
  if (message.role !== "block_assistant") return textsOf(message);
  const valuesOf = (args: unknown): readonly string[] => leavesOf(args, (_, text) => text);
  return message.blocks
    .flatMap((block) => (block.block_type === "tool_use" ? valuesOf(block.data.args) : blockTexts(block)))
    .flatMap(piecesOf);
}

/** A longer result is read as it is written, at both ends. */
const DECODED_CHARS_MAX = 2 * RESULT_END_CHARS_MAX;
/** Keys of a tool's report on itself: of these the text is read without its key, of those nothing. */
const ENVELOPE = /^(?:stdout|stderr|output|content|text|result)$/iu;
const REPORT =
  /^(?:exit_?code|duration(?:_?(?:secs?|seconds|ms))?|elapsed(?:_?(?:secs?|ms))?|timed_?out|truncated|is_?error|std(?:out|err)_lossy)$/iu;
/** The same in JSON that is cut off. */
const REPORTED =
  /"(?:(?:duration|elapsed)_?[a-z]*"\s*:\s*[\d.]+|(?:timed_?out|truncated|is_?error)"\s*:\s*\p{L}+|(?:stdout|stderr|output)"\s*:)/giu;
const EXIT_KEY = /"exit_?code"\s*:\s*(?:0(?!\d))?/giu;
/** A line of `ls -l`, up to the name. */
const LISTED_FILE =
  /^[-dlbcps][rwxsStT-]{9}[.@+]?[ \t]+\d+[ \t]+\S+[ \t]+\S+[ \t]+[\d.,]+[KMGTB]?[ \t]+(?:\p{L}{3,4}\.?[ \t]+\d{1,2}|\d{4}-\d{2}-\d{2})[ \t]+[\d:.]+(?:[ \t]+[+-]\d{4})?[ \t]+|^total [\d.]+[KMGT]?$/gmu;

/** The text of a tool result: decoded if it is JSON, also within JSON, and without sizes and dates of listed files. */
function decoded(text: string): string {
  const value = text.length <= DECODED_CHARS_MAX && /^\s*[[{]/u.test(text) ? jsonIn(text) : undefined;
  if (value !== undefined) return leavesOf(value, writeResult).map(decoded).join("\n");
  const plain = text.includes('\\"') ? unescaped(text) : text;
  return plain.replace(REPORTED, " ").replace(EXIT_KEY, " exit code ").replace(LISTED_FILE, "");
}

function writeResult(key: string, text: string): string | undefined {
  if (/^exit_?code$/iu.test(key) && text !== "0") return `exit code ${text}`;
  if (REPORT.test(key)) return undefined;
  return ENVELOPE.test(key) ? text : withKey(key, text);
}

/** A tool's output may be endless; it is read at both ends. */
export function endsOf(text: string): readonly string[] {
  if (text.length <= 2 * RESULT_END_CHARS_MAX) return [text];
  return [text.slice(0, RESULT_END_CHARS_MAX), text.slice(-RESULT_END_CHARS_MAX)];
}

function collectFrom(text: string, seq: number, into: Map<string, Specific>): void {
  const sentences = sentencePieces(text);
  for (const atom of atomsIn(text)) {
    const said = saidAt(sentences, atom.start);
    add({ kind: atom.kind, text: atom.text, seq, ...(said === undefined ? {} : { said: [said] }) }, into);
  }
  for (const command of commandsIn(text)) add({ kind: "command", text: command, seq }, into);
}

function sentencePieces(text: string): readonly Piece[] {
  let start = 0;
  return text.split("\n").flatMap((line) => {
    const pieces = sentencesIn(line, start);
    start += line.length + 1;
    return pieces;
  });
}

/** The sentence at a position, or the text around it, and after line breaks the sentences beside it. */
function saidAt(sentences: readonly Piece[], at: number): string | undefined {
  const index = sentences.findIndex(({ end }) => end > at);
  const found = sentences[index];
  if (found === undefined) return undefined;
  const from = found.text.length <= STATEMENT_CHARS_MAX ? 0 : Math.max(0, at - found.start - STATEMENT_CHARS_MAX / 2);
  const beside = [sentences[index - 1], sentences[index + 1]].flatMap((one) => one ?? []);
  const short = beside.map(({ text }) => text).filter(({ length }) => length <= BESIDE_CHARS_MAX);
  return [found.text.slice(from, from + STATEMENT_CHARS_MAX), ...short].join("\n");
}

function toolCommands(message: Message): string[] {
  if (message.role !== "block_assistant") return [];
  return message.blocks.flatMap((block) => {
    if (block.block_type !== "tool_use") return [];
    const command = block.data.args.command ?? block.data.args.cmd;
    if (typeof command === "string") return [command];
    return Array.isArray(command) ? [command.join(" ")] : [];
  });
}

function add(specific: Specific, into: Map<string, Specific>): void {
  const text = clip(specific.text.trim());
  const key = `${specific.kind} ${normalised({ ...specific, text })}`;
  const known = into.get(key);
  const [said] = specific.said ?? [];
  if (known?.said !== undefined && said !== undefined && known.said.length < SAID_MAX && !known.said.includes(said))
    into.set(key, { ...known, said: [...known.said, said] });
  if (text === "" || known !== undefined || into.size >= SPECIFICS_MAX) return;
  into.set(key, { ...specific, text });
}

/** Numbers are equal if their likeliest readings are; other specifics if their texts are. */
function normalised({ kind, text }: Specific): string {
  const reading = kind === "number" ? needsIn(text)[0]?.[0] : undefined;
  return reading ?? (kind === "rule" || kind === "ask" ? verbatim(text) : plainCase(writtenPiece(text)));
}

/** Cuts between words and never inside a surrogate pair. */
export function clip(text: string): string {
  if (text.length <= SPECIFIC_CHARS_MAX) return text;
  const space = text.lastIndexOf(" ", SPECIFIC_CHARS_MAX);
  const cut = text.slice(0, space >= SPECIFIC_CHARS_MAX / 2 ? space : SPECIFIC_CHARS_MAX).trimEnd();
  return cut.isWellFormed() ? cut : cut.slice(0, -1);
}

/** A line in backticks that starts with one of these programs is a command; others need a flag, a pipe or a prompt. */
const PROGRAM =
  /^(?:sudo |time |env |nohup |npx |[A-Z_]+=\S+ )*(?:\.{1,2}\/\S+|~\/\S+|git|gh|npm|npx|pnpm|yarn|bun|deno|node|tsc|vitest|jest|python3?|pip3?|uv|poetry|pytest|ruff|cargo|rustc|go|make|cmake|docker|docker-compose|podman|kubectl|helm|terraform|ansible|aws|gcloud|az|ssh|scp|rsync|curl|wget|psql|mysql|sqlite3|redis-cli|mongosh|systemctl|journalctl|apt|apt-get|brew|yum|ls|cd|cat|grep|rg|sed|awk|find|rm|cp|mv|mkdir|chmod|chown|tar|unzip|kill|ps|top|df|du|tail|head|echo|export|source|bash|sh|zsh|java|mvn|gradle|dotnet|php|composer|ruby|bundle|rails|alembic|dig|ping|openssl|pg_dump|pg_restore|crontab|tmux|vim|jq|wc|sort|diff|patch|rkat)(?:\s|$)/u;
const BACKTICKED = /(?<!`)`([^`\n]{3,300})`(?!`)/gu;
const PROMPTED = /^[ \t]*(?:\w+@[\w.-]+[^$\n]{0,80})?\$ +(\S[^\n]*)$/gmu;
const FENCED = /```(?:sh|bash|shell|zsh|console|terminal)\n([\s\S]*?)```/gu;
const EXIT =
  /\b(?:exit(?:ed|s)?(?:[ -](?:code|status))?|exit[_-]?code|return code|rückgabewert|code de sortie)(?:\s+(?:with|is|was|of|code|status|mit))*["']?\s*(?:[:=]\s*)?(-?\d{1,3})(?!\d|[.,]\d)|(?:退出码|終了コード)(?:为|は|:|：|是)?\s*(\d{1,3})/giu;

/** The commands in a text: shell lines in backticks, in fences and after a prompt, and exit codes. */
function commandsIn(text: string): string[] {
  const commands: string[] = [];
  for (const [, body = ""] of matchesOf(BACKTICKED, text)) if (isCommand(body)) commands.push(stripPrompt(body));
  for (const [, line = ""] of matchesOf(PROMPTED, text)) commands.push(line.trim());
  for (const [, body = ""] of matchesOf(FENCED, text)) {
    for (const line of body.split("\n"))
      if (line.trim() !== "" && !/^\s*#/u.test(line)) commands.push(stripPrompt(line));
  }
  for (const code of exitCodesIn(text)) commands.push(`exit code ${code}`);
  return commands;
}

export function exitCodesIn(text: string): string[] {
  return matchesOf(EXIT, text).map(([, spoken, unspaced]) => spoken ?? unspaced ?? "");
}

function isCommand(body: string): boolean {
  if (!/\s/u.test(body.trim())) return false;
  return PROGRAM.test(stripPrompt(body)) || /\s--?[a-z]|\s[|>]{1,2}\s|&&/u.test(body);
}

function stripPrompt(line: string): string {
  return line.trim().replace(/^\$\s+/u, "");
}

/** An exact part of a sentence that is not marked by backticks or form. */
export interface Unmarked {
  readonly kind: "identifier" | "command" | "number";
  readonly text: string;
  /** Canonical spellings, one of which must occur in the source; none for a number. */
  readonly spellings: readonly string[];
  /** Stems one of which makes a count plausible. */
  readonly stems: readonly string[];
}

const CODED = /(?<![\w@#/\\.:$%&=+-])([A-Za-z]{1,24})(-?)(\d{1,8})(?![\w/\\:@%=+-]|\.\w|,\d)/gu;
/** Common letter and digit codes: quarters, percentiles, formats, protocols, sizes. */
const COMMON_CODE =
  /^(?:[a-z]{1,2}-?\d{1,2}|fy\d+|cy\d+|p\d{2,3}|utf-?\d+|sha-?\d+|md5|base\d+|ipv\d|es\d+|mp\d|x\d+|arm\d+|amd64|ec2|win\d+|int\d+|uint\d+|float\d+|iso-?\d+|rfc-?\d+|oauth\d|python\d*|log4j|covid-19|co2|top\d+|h264|h265|ed25519|rsa\d+|aes-?\d+|crc\d+|https?-?\d+|(?:eur|usd|chf|gbp|jpy|cny|rmb)-?\d+|(?:nr|no|abs|art|kap|fig|sec|vol|chap|utc|gmt|cest?|est|pst|jan|feb|mar|apr|may|mai|jun|jul|aug|sept?|o[ck]t|nov|de[cz])-?\d+)$/iu;
/** Words that count or limit before a hyphen and a number. */
const COUNTING_HEAD =
  /^(?:top|mid|sub|pre|post|under|over|non|plus|phase|step|part|tier|level|day|week|month|year|round|option|version|chapter|section|stage|wave|sprint|priority|type|class|group|page|item|line|point|late|early|since|until|catch|max|min|plan|slide|row|column|figure|table|appendix|covid)$/iu;
const YEAR = /^(?:19|20)\d{2}$/u;
const CODED_CHARS_MIN = 4;

const LONG_FLAG = /(?<![\w-])--[a-z][\w-]*(?:=[^\s`"',;)]+)?/giu;
const SHORT_FLAG = /(?<![\w.`-])([a-z][\w.-]*) (-[A-Za-z]{1,4})(?=[\s.,;)]|$)/gu;
const RUNNER =
  /(?<![\w`/.-])(npm|npx|pnpm|yarn|git|docker|kubectl|cargo|pip3?|helm|terraform) ((?:run|exec|compose) )?([a-z][\w:-]*)/gu;
/** Subcommands that may follow the name of a runner in a sentence. */
const SUBCOMMAND =
  /^(?:push|pull|reset|rebase|merge|revert|commit|clone|checkout|stash|clean|tag|install|uninstall|publish|unpublish|audit|apply|delete|destroy|build|up|down|prune|rm|rmi|drain|scale|rollout|upgrade|rollback|init|update|fetch|cherry-pick|bisect|login|logout|stop|kill|restart)$/u;
const SENTENCE_WORD = /^(?:the|a|an|it|this|that|these|in|on|to|by|with|and|or|for|from|as|is|was)$/u;

/** Smaller counts can be counted from a list by the summary itself. */
const COUNT_MIN = 10;
/** Things a summary counts although the source lists them without naming them. */
const LISTED = new Set(
  stemsOf(
    `file folder directory line item command step call test message turn point question entry row column change edit error
    result option people person place thing word record case time page section commit hit match attempt check warning failure
    issue ticket task example topic decision requirement constraint rule note value field key name function method class
    module package dependency document photo image event
    Datei Dateien Zeilen Punkte Schritte Fragen Einträge Tests Personen Aufgaben Regeln Belege Posten fichiers lignes points
    étapes questions personnes tâches règles photos invités archivos líneas puntos pasos preguntas personas tareas`,
  ),
);

/** Letter-digit names, command lines and counts in a sentence. */
export function unmarkedIn(sentence: string): readonly Unmarked[] {
  const text = foldWidth(sentence);
  return [...codesIn(text), ...commandLinesIn(text), ...countsIn(text)];
}

function codesIn(text: string): Unmarked[] {
  const judged = new Set(atomsIn(text).map((atom) => atom.text));
  const found: Unmarked[] = [];
  for (const [code, letters = "", hyphen, digits = ""] of matchesOf(CODED, text)) {
    const isCommon = COMMON_CODE.test(code) || COUNTING_HEAD.test(letters) || YEAR.test(digits);
    if (isCommon || code.length < CODED_CHARS_MIN || judged.has(code)) continue;
    // A capitalised word before a hyphen and a number is a counting noun: `Band-2`, `Kapitel-4`.
    if (hyphen === "-" && /^[A-Z][a-z]/u.test(letters)) continue;
    const head = letters.toLowerCase();
    const spellings = [
      head + digits,
      `${head} ${digits}`,
      `${head}_${digits}`,
      `${head} #${digits}`,
      `${head}.${digits}`,
    ];
    found.push({ kind: "identifier", text: code, spellings, stems: [] });
  }
  return found;
}

function commandLinesIn(text: string): Unmarked[] {
  const found: Unmarked[] = [];
  const add = (command: string, ...spellings: readonly string[]): void => {
    found.push({ kind: "command", text: command, spellings: spellings.map(canonicalPiece), stems: [] });
  };
  for (const [flag] of matchesOf(LONG_FLAG, text)) {
    const bare = flag.replace(/(?<![.:!?])[.:!?]+$/u, "");
    add(bare, bare, bare.replace("=", " "));
  }
  for (const [line, , flag = ""] of matchesOf(SHORT_FLAG, text)) add(line, flag);
  for (const [line, , run, word = ""] of matchesOf(RUNNER, text)) {
    if (SENTENCE_WORD.test(word) || (run === undefined && !SUBCOMMAND.test(word))) continue;
    add(line, word);
  }
  return found;
}

/** Counts of things that the source does not name; others may have been counted there. */
function countsIn(text: string): Unmarked[] {
  const found: Unmarked[] = [];
  const spelt = withDigits(text);
  for (const numeral of numeralsIn(spelt)) {
    const isPlain = numeral.readings.every(({ dimension }) => dimension === "") && /^\d+$/u.test(numeral.text);
    if (!isPlain || numeral.raw < COUNT_MIN || YEAR.test(numeral.text)) continue;
    const noun = /^ (\p{Ll}{3,}s)(?![\p{L}-])/u.exec(spelt.slice(numeral.start + numeral.text.length))?.[1];
    const stems = noun === undefined ? [] : stemsOf(noun);
    if (noun === undefined || stems.length === 0 || stems.some((stem) => LISTED.has(stem))) continue;
    found.push({ kind: "number", text: `${numeral.text} ${noun}`, spellings: [], stems });
  }
  return found;
}

const CONSTRAINT =
  /\b(?:always|never|must(?:n[’']?t)?|don[’']?t|do not|only|prefer(?:s|red|ably)?|avoid|at (?:most|least)|no more than|under no circumstances|from now on)\b|(?<!\p{L})(?:immer|niemals|nie|muss|müssen|darf|dürfen|nur|keinesfalls|bevorzug\p{L}*|lieber|auf keinen fall|spätestens|toujours|jamais|doit|doivent|uniquement|seulement|préfèr\p{L}*|il faut|interdit|surtout pas|ne\s+\p{L}+\s+(?:pas|que))(?!\p{L})|必须|總是|总是|永远|不要|不能|不得|只能|只要|优先|禁止|务必|一律|一定要|必ず|常に|絶対|ないで|禁止|のみ|なければなら|ないこと|てはいけ/iu;
const QUOTED = /[“„«「『]\s?([^“”„«»「」『』\n]{4,400}?)\s?[”“»」』]|(?<![\p{L}\p{N}])"([^"\n]{4,400})"/gu;
const QUESTION = /[?？]["'”’»」』)\]*_`]*$/u;
const REQUEST =
  /^(?:(?:ok(?:ay)?|now|then|so|and|also|next|first|great|good|thanks?|perfect|yes|no|alright|hm+)[,.!]?\s+)*(?:please|can you|could you|would you|will you|i want|i need|i'd like|let[’']?s|add|build|change|check|clean|compare|convert|create|delete|deploy|describe|do|draft|drop|explain|extract|find|fix|generate|give|go|implement|install|investigate|keep|list|look|make|merge|migrate|move|open|plan|prepare|propose|put|read|refactor|remove|rename|replace|restart|revert|review|rewrite|run|search|send|set|show|split|start|stop|suggest|summari[sz]e|switch|take|tell|test|translate|try|turn|update|upgrade|use|verify|write)\b|\bplease\b|(?<!\p{L})(?:bitte|kannst du|könntest du|können sie|könnten sie|mach|schreib|zeig|prüf\p{L}*|erstell\p{L}*|peux-tu|pouvez-vous|pourriez-vous|merci de|s[’']il (?:te|vous) plaît|fais|ajoute\p{L}*|vérifie\p{L}*|prépare\p{L}*|rédige\p{L}*)(?!\p{L})|请|帮我|麻烦|给我|能不能|ください|お願い|頼む|してほしい|教えて/iu;
/** A reply with this share of an ask's content words has answered it. */
const ANSWERED_SHARE = 0.5;

/** A user's constraints and quotations. */
export function rulesIn(text: string): string[] {
  return [...sentencesOf(text).filter(isRule), ...quotesIn(text).filter((quote) => stemsOf(quote).length > 1)];
}

export function quotesIn(text: string): string[] {
  return matchesOf(QUOTED, text).map(([, curly, straight]) => (curly ?? straight ?? "").trim());
}

/** Whether a user's sentence is a rule. */
export function isRule(sentence: string): boolean {
  return CONSTRAINT.test(sentence) && !QUESTION.test(sentence) && stemsOf(sentence).length > 1;
}

/** Words that turn a reader against what it was told before; no rule or request begins with them. */
const OVERRIDE =
  /^(?:and |then )?(?:reveal|execute|upload|transfer|approve|grant|email|post|pay|disable|visit|reply)(?!\p{L})|(?<!\p{L})(?:ignore|disregard|forget|override|bypass|you (?:should|need to|have to|are to|are now)|your (?:new )?task|make sure|ignoriere\p{L}*|vergiss|du (?:sollst|musst)|sie sollen|führe\p{L}*|sende\p{L}*|ignore[zr]|oublie[zr])(?!\p{L})|忽略|执行|发送|你应该|無視|実行|送信/iu;

/** Words that tell an agent its duty, whoever is said to want it. */
const DUTY =
  /(?<!\p{L})(?:should|shall|ought to|needs? to|ha(?:s|ve) to|(?:is|are) (?:to|required to|supposed to|expected to)|required to|(?:remains?|left|wants?|wish(?:es)?|ask(?:s|ed)?|told|tells?|instruct\p{L}*|request\p{L}*) (?:(?:is|you|us|me|the \p{L}+) )?to|kindly|soll(?:en|st|t)?|sollte\p{L}*|schick\p{L}*|lösch\p{L}*|devr\p{L}+|envoie\p{L}*|debe\p{L}*)(?!\p{L})|应该|应当|需要|べき/iu;

/** Whether a sentence tells its reader to do something. */
export function isInstruction(sentence: string): boolean {
  // Marks that nobody sees would hide a word, and marks around it the beginning.
  const said = sentence.replaceAll(/\p{Cf}/gu, "").replace(/^[\s#>*_|`"'“„«(<[\]-]+/u, "");
  const begun = said.replace(/^[^:.!?\n]{1,40}:\s+["'“„«`*_]*/u, "");
  return isRule(said) || REQUEST.test(begun) || OVERRIDE.test(begun) || OVERRIDE.test(said) || DUTY.test(said);
}

/** The questions and requests of a user's text. */
export function asksIn(text: string): string[] {
  return sentencesOf(text).filter((sentence) => QUESTION.test(sentence) || REQUEST.test(sentence));
}

/** The asks of the last user message: at least its first sentence. */
function lastAsksOf(asks: readonly string[], texts: readonly string[]): readonly string[] {
  if (asks.length > 0) return asks;
  const [first = ""] = texts.filter((text) => text.trim() !== "");
  return sentencesOf(first).slice(0, 1);
}

/** The asks that the replies before the next user message do not take up. */
async function unansweredOf(
  asks: readonly string[],
  replies: readonly string[],
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<readonly string[]> {
  if (asks.length === 0) return [];
  const said = await stemSet(replies, yieldToEventLoop);
  return asks.filter((ask) => {
    const stems = stemsOf(ask);
    const held = stems.filter((stem) => said.has(stem)).length;
    return replies.length === 0 || held < stems.length * ANSWERED_SHARE;
  });
}
