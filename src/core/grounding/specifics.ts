import type { SpecificKind } from "../../contract/compaction.ts";
import type { AssistantBlock, Message } from "../../contract/message.ts";
import type { Clock } from "../../ports/clock.ts";
import { atomsIn } from "../../text/atoms.ts";
import { canonicalPiece } from "../../text/canonical.ts";
import { figuresIn } from "../../text/numbers.ts";
import { piecesOf, textsOf, wholeTextsOf } from "./exactness.ts";
import { asksIn, lastAsksOf, rulesIn, unansweredOf } from "./wishes.ts";

/** Something that must stay exact to stay true, and the newest message that says it. */
export interface Specific {
  readonly kind: SpecificKind;
  readonly text: string;
  readonly seq: number;
}

interface NumberedMessage {
  readonly seq: number;
  readonly message: Message;
}

/** A longer rule or command is cut: a receipt names what was said, it does not repeat it. */
export const SPECIFIC_CHARS_MAX = 200;
/** What people wrote goes first, then the newest messages; what is beyond is not accounted for. */
export const SPECIFICS_MAX = 20_000;
/** A tool's output is read at both ends; its middle is rarely spoken of and may be endless. */
export const RESULT_END_CHARS_MAX = 32 * 1_024;

/** Every specific of the messages once, at its newest mention, in the order of the messages. */
export async function specificsOf(
  messages: readonly NumberedMessage[],
  breathe: Clock["breathe"],
): Promise<readonly Specific[]> {
  const found = new Map<string, Specific>();
  const byUser = messages.filter(({ message }) => message.role === "user");
  const byOthers = messages.filter(({ message }) => message.role !== "user");
  await collectWishes(messages, found, breathe);
  for (const one of [...byUser.toReversed(), ...byOthers.toReversed()]) {
    if (found.size >= SPECIFICS_MAX) break;
    for (const text of readableTexts(one.message)) {
      await breathe();
      collectFrom(text, one.seq, found);
    }
    for (const command of toolCommands(one.message)) add({ kind: "command", text: command, seq: one.seq }, found);
  }
  const tools = toolNames(messages);
  return [...found.values()].filter(({ text }) => !tools.has(text)).sort((a, b) => a.seq - b.seq);
}

/** The names of tools look like names of the work and are none: the model is told them anyway. */
function toolNames(messages: readonly NumberedMessage[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { message } of messages) {
    if (message.role !== "block_assistant") continue;
    for (const block of message.blocks) if (block.block_type === "tool_use") names.add(block.data.name);
  }
  return names;
}

/** Rules of every user message, asks of those that nobody took up; the newest messages first. */
async function collectWishes(
  messages: readonly NumberedMessage[],
  into: Map<string, Specific>,
  breathe: Clock["breathe"],
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
      await breathe();
      asked.push(...asksIn(text));
      rules.push(...rulesIn(text));
    }
    const asks = isLast ? lastAsksOf(asked, texts) : await unansweredOf(asked, replies, breathe);
    for (const ask of asks) add({ kind: "ask", text: ask, seq }, into);
    for (const rule of rules) add({ kind: "rule", text: rule, seq }, into);
    replies = [];
    isLast = false;
  }
}

function spokenText(block: AssistantBlock): readonly string[] {
  return block.block_type === "text" ? [block.data.text] : [];
}

function readableTexts(message: Message): readonly string[] {
  const texts = wholeTextsOf(message);
  return (message.role === "tool_results" ? texts.flatMap(endsOf) : texts).flatMap(piecesOf);
}

function endsOf(text: string): readonly string[] {
  if (text.length <= 2 * RESULT_END_CHARS_MAX) return [text];
  return [text.slice(0, RESULT_END_CHARS_MAX), text.slice(-RESULT_END_CHARS_MAX)];
}

function collectFrom(text: string, seq: number, into: Map<string, Specific>): void {
  for (const atom of atomsIn(text)) add({ kind: atom.kind, text: atom.text, seq }, into);
  for (const command of commandsIn(text)) add({ kind: "command", text: command, seq }, into);
}

/** What a tool call has a shell run. */
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
  if (text === "" || into.has(key) || into.size >= SPECIFICS_MAX) return;
  into.set(key, { ...specific, text });
}

/** Two numbers are the same when their likeliest reading is; all else when it is written the same but for soft signs. */
function normalised({ kind, text }: Specific): string {
  if (kind !== "number") return canonicalPiece(text);
  return figuresIn(text)[0]?.needs[0] ?? canonicalPiece(text);
}

/** Cut between words and never inside a pair of surrogates. */
export function clip(text: string): string {
  if (text.length <= SPECIFIC_CHARS_MAX) return text;
  const space = text.lastIndexOf(" ", SPECIFIC_CHARS_MAX);
  const cut = text.slice(0, space >= SPECIFIC_CHARS_MAX / 2 ? space : SPECIFIC_CHARS_MAX).trimEnd();
  return cut.isWellFormed() ? cut : cut.slice(0, -1);
}

/** Programs a line in backticks is a command of; other lines need a flag, a pipe or a prompt. */
const PROGRAM =
  /^(?:sudo |time |env |nohup |npx |[A-Z_]+=\S+ )*(?:\.{1,2}\/\S+|~\/\S+|git|gh|npm|npx|pnpm|yarn|bun|deno|node|tsc|vitest|jest|python3?|pip3?|uv|poetry|pytest|ruff|cargo|rustc|go|make|cmake|docker|docker-compose|podman|kubectl|helm|terraform|ansible|aws|gcloud|az|ssh|scp|rsync|curl|wget|psql|mysql|sqlite3|redis-cli|mongosh|systemctl|journalctl|apt|apt-get|brew|yum|ls|cd|cat|grep|rg|sed|awk|find|rm|cp|mv|mkdir|chmod|chown|tar|unzip|kill|ps|top|df|du|tail|head|echo|export|source|bash|sh|zsh|java|mvn|gradle|dotnet|php|composer|ruby|bundle|rails|alembic|dig|ping|openssl|pg_dump|pg_restore|crontab|tmux|vim|jq|wc|sort|diff|patch|rkat)(?:\s|$)/u;
const BACKTICKED = /(?<!`)`([^`\n]{3,300})`(?!`)/gu;
const PROMPTED = /^[ \t]*(?:\w+@[\w.-]+[^$\n]{0,80})?\$ +(\S[^\n]*)$/gmu;
const FENCED = /```(?:sh|bash|shell|zsh|console|terminal)\n([\s\S]*?)```/gu;
const EXIT =
  /\b(?:exit(?:ed|s)?(?:[ -](?:code|status))?|exit[_-]?code|return code|rückgabewert|code de sortie)(?:\s+(?:with|is|was|of|code|status|mit))*["']?\s*(?:[:=]\s*)?(-?\d{1,3})(?!\d|[.,]\d)|(?:退出码|終了コード)(?:为|は|:|：|是)?\s*(\d{1,3})/giu;

/** The commands a text shows: shell lines in backticks, in fences and after a prompt, and exit codes. */
function commandsIn(text: string): string[] {
  const commands: string[] = [];
  for (const [, body = ""] of text.matchAll(BACKTICKED)) if (isCommand(body)) commands.push(stripPrompt(body));
  for (const [, line = ""] of text.matchAll(PROMPTED)) commands.push(line.trim());
  for (const [, body = ""] of text.matchAll(FENCED)) {
    for (const line of body.split("\n"))
      if (line.trim() !== "" && !/^\s*#/u.test(line)) commands.push(stripPrompt(line));
  }
  for (const code of exitCodesIn(text)) commands.push(`exit code ${code}`);
  return commands;
}

/** The exit codes a text reports. */
export function exitCodesIn(text: string): string[] {
  return [...text.matchAll(EXIT)].map(([, spoken, unspaced]) => spoken ?? unspaced ?? "");
}

function isCommand(body: string): boolean {
  if (!/\s/u.test(body.trim())) return false;
  return PROGRAM.test(stripPrompt(body)) || /\s--?[a-z]|\s[|>]{1,2}\s|&&/u.test(body);
}

function stripPrompt(line: string): string {
  return line.trim().replace(/^\$\s+/u, "");
}
