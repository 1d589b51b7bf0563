import type { AgentEvent } from "@rkat/core/contract/event";
import type { ContentBlock, Message, PendingCall } from "@rkat/core/contract/message";
import { type ChainHash, chainHash, inOrder, partsOf, plainOf, type Said, type SaidResult } from "./said.ts";

/**
 * What a client knows of a session, as hashes of every place at which it was answered: a fold of the session's events, which
 * only ever grows.
 */
export interface ClientView {
  /** Up to which of the session's events it was made. */
  seq: number;
  /** The seq of the answer with which a conversation of this hash ended. */
  readonly ends: Map<ChainHash, number>;
  last: ChainHash;
  /** Whether later messages are unanswered, or their answer is incomplete. */
  isOpen: boolean;
  turn: OpenTurn;
  /** The state before the newest turn failed: a client that repeats the request continues from there. */
  failed?: Pick<ClientView, "last" | "turn"> | undefined;
}

interface OpenTurn {
  readonly results: SaidResult[];
  readonly parts: ContentBlock[];
  readonly texts: string[];
  readonly calls: Map<string, PendingCall>;
  /** Calls of the turn before that the client has to run. */
  readonly awaited: ReadonlySet<string>;
  /** Calls the turn ended with, where its output is still to be extracted. */
  extracting: boolean;
}

/** The view of a session that has nothing yet; `seed` is whatever else tells conversations apart. */
export function beginView(seed: ChainHash): ClientView {
  return { seq: 0, ends: new Map(), last: seed, isOpen: false, turn: openTurn([]) };
}

function openTurn(awaited: Iterable<string>): OpenTurn {
  return { results: [], parts: [], texts: [], calls: new Map(), awaited: new Set(awaited), extracting: false };
}

/** Whether a conversation of this hash is in it, and the session has nothing more. */
export function endsWith(view: ClientView, hash: ChainHash): boolean {
  return !view.isOpen && view.last === hash && view.ends.has(hash);
}

export function viewEvent(view: ClientView, seq: number, event: AgentEvent): void {
  view.seq = seq;
  const { turn } = view;
  switch (event.type) {
    case "run_started":
      if (event.prompt === "" && view.failed !== undefined) {
        const { last, turn: asked } = view.failed;
        [view.last, view.turn] = [last, { ...asked, texts: [] }];
      }
      view.failed = undefined;
      view.isOpen = true;
      view.turn.parts.push(...partsOf(event.prompt));
      return;
    case "tool_result_received":
      if (turn.awaited.has(event.id)) turn.results.push({ id: event.id, content: plainOf(event.content ?? []) });
      return;
    case "text_complete":
      turn.texts.push(event.content);
      return;
    case "tool_call_requested":
      turn.calls.set(event.id, { id: event.id, name: event.name, args: event.args });
      return;
    case "run_completed":
      if (event.extraction_required) turn.extracting = true;
      else endTurn(view, seq, { text: answerText(turn.texts), pending: event.pending_calls ?? [] });
      return;
    case "extraction_succeeded":
      endTurn(view, seq, { text: JSON.stringify(event.structured_output), pending: [] });
      return;
    case "extraction_failed":
      endTurn(view, seq, { text: answerText(turn.texts), pending: [] });
      return;
    case "run_failed":
      view.failed = { last: view.last, turn };
      spoil(view, seq);
      return;
    case "transcript_rewrite_committed":
      // The client has not seen its current text.
      view.ends.clear();
      spoil(view, seq);
      return;
    default:
      return;
  }
}

/** The text of a turn with several answers: all of them, joined. */
export const BETWEEN_ANSWERS = "\n\n";

export function answerText(texts: readonly string[]): string {
  return texts.join(BETWEEN_ANSWERS);
}

function endTurn(view: ClientView, seq: number, answer: { text: string; pending: readonly string[] }): void {
  const { turn } = view;
  const calls = answer.pending.flatMap((id) => turn.calls.get(id) ?? []);
  viewSaid(view, seq, [...asked(turn), { role: "assistant", text: answer.text, calls }]);
}

/** The client's input: results first, wherever they stand. */
function asked({ results, parts, awaited }: OpenTurn): readonly Said[] {
  return [
    ...(results.length === 0 ? [] : [{ role: "tools" as const, results: inOrder(results, awaited) }]),
    ...(parts.length === 0 ? [] : [{ role: "user" as const, parts }]),
  ];
}

/** Advances a view by what was said up to an answer. */
export function viewSaid(view: ClientView, seq: number, said: readonly Said[]): void {
  view.seq = seq;
  for (const one of said) {
    view.last = chainHash(view.last, one);
    view.isOpen = one.role !== "assistant";
    if (one.role !== "assistant") continue;
    view.ends.set(view.last, seq);
    view.turn = openTurn(one.calls.map(({ id }) => id));
  }
}

/** From here on no client has the same conversation: the last answer broke off. */
function spoil(view: ClientView, seq: number): void {
  view.isOpen = true;
  view.last = chainHash(view.last, { role: "assistant", text: `broke off at ${seq}`, calls: [] });
  view.turn = openTurn([]);
}

/** The messages a session began with, as a client that sent them knows them. */
export function saidIn(messages: readonly Message[]): readonly Said[] {
  return messages.flatMap((message) => saidBy(message) ?? []);
}

function saidBy(message: Message): Said | undefined {
  switch (message.role) {
    case "user":
      return { role: "user", parts: partsOf(message.content) };
    case "block_assistant": {
      const texts = message.blocks.flatMap((block) => (block.block_type === "text" ? [block.data.text] : []));
      const calls = message.blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data] : []));
      return { role: "assistant", text: texts.join(""), calls };
    }
    case "tool_results":
      return { role: "tools", results: message.results.map(({ tool_use_id: id, content }) => ({ id, content })) };
    case "system":
    case "system_notice":
      return undefined;
  }
}
