import { RuntimeError } from "../../../contract/error.ts";
import { formatSessionRef } from "../../wire/events.ts";
import { oneLine, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { shortId } from "../session-selector.ts";
import { messageText } from "./session-views.ts";

/** The flags of the commands that change a session; each declares those it has. */
export interface ChangeFlags {
  readonly at?: number;
  readonly replacement?: object;
  readonly json?: boolean;
}

type Change<More = unknown> = ChangeFlags & More & { readonly id: string };

export async function deleteSession({ io }: Invocation, { runtime }: Opened, { id, json }: Change): Promise<void> {
  const answer = await runtime.dispatch("archiveSession", { session_id: id });
  if (json) return writeJson(io, { session_id: id, ...answer });
  io.stdout.write(`Archived ${id}; rkat session show ${id} still reads it.\n`);
}

export async function interruptSession({ io }: Invocation, { runtime }: Opened, { id, json }: Change): Promise<void> {
  const { state } = await runtime.readSession(id);
  const answer = await runtime.dispatch("interruptTurn", { session_id: id });
  if (json) return writeJson(io, { session_id: id, ...answer });
  io.stdout.write(state === "running" ? `Asked ${shortId(id)} to stop.\n` : `${shortId(id)} is not running a turn.\n`);
}

export async function forkSession({ io }: Invocation, { runtime, place }: Opened, change: Change): Promise<void> {
  const { id, at, replacement, json } = change;
  if (replacement !== undefined && at === undefined) {
    throw new RuntimeError("INVALID_PARAMS", "--replacement needs --at, the index of the message it replaces");
  }
  const message_index = at ?? (await runtime.readSession(id)).message_count;
  const fork =
    replacement === undefined
      ? await runtime.dispatch("forkSession", { session_id: id, message_index })
      : await runtime.dispatch("forkReplacing", { session_id: id, message_index, replacement });
  if (json) return writeJson(io, { ...fork, session_ref: formatSessionRef(place.realm, fork.session_id) });
  const { session_id, message_count } = fork;
  io.stdout.write(`Forked ${shortId(id)} at message ${message_count}: ${session_id}\n`);
  io.stdout.write(`Go on with: rkat resume ${shortId(session_id)} PROMPT\n`);
}

export async function injectText(
  { io }: Invocation,
  { runtime }: Opened,
  { id, text, json }: Change<{ readonly text: string }>,
): Promise<void> {
  const answer = await runtime.dispatch("injectContext", { session_id: id, text });
  if (json) return writeJson(io, { session_id: id, ...answer });
  io.stdout.write(`Added to ${shortId(id)}; the model is shown it at its next call.\n`);
}

export async function sendEvent(
  { io }: Invocation,
  { runtime }: Opened,
  { id, type, payload, json }: Change<{ readonly type: string; readonly payload: unknown }>,
): Promise<void> {
  const answer = await runtime.dispatch("sendExternalEvent", { session_id: id, event_type: type, payload });
  if (json) return writeJson(io, { session_id: id, ...answer });
  io.stdout.write(`Told ${shortId(id)}; the model is shown it at its next call.\n`);
}

type PinChange = Change<{ readonly seq: number }>;

export async function pinMessage({ io }: Invocation, opened: Opened, { id, seq, json }: PinChange): Promise<void> {
  const answer = await opened.runtime.dispatch("pinMessage", { session_id: id, seq });
  if (json) return writeJson(io, answer);
  io.stdout.write(`Pinned ${await messageLine(opened, id, seq)}\n${pinsLine(answer.pins)}\n`);
}

export async function unpinMessage({ io }: Invocation, opened: Opened, { id, seq, json }: PinChange): Promise<void> {
  const answer = await opened.runtime.dispatch("unpinMessage", { session_id: id, seq });
  if (json) return writeJson(io, answer);
  io.stdout.write(`No longer pinned: ${await messageLine(opened, id, seq)}\n${pinsLine(answer.pins)}\n`);
}

export async function listPins({ io }: Invocation, { runtime }: Opened, { id, json }: Change): Promise<void> {
  const answer = await runtime.dispatch("listPins", { session_id: id });
  if (json) return writeJson(io, answer);
  io.stdout.write(`${pinsLine(answer.pins)}\n`);
}

function pinsLine(pins: readonly number[]): string {
  if (pins.length === 0) return "Nothing is pinned.";
  return `Every compaction keeps the ${pins.length === 1 ? "seq" : "seqs"} ${pins.toSorted((a, b) => a - b).join(", ")}.`;
}

const MESSAGE_CHARS_MAX = 100;

/** A seq is easily mistyped, so what it stands for is said. */
async function messageLine({ runtime }: Opened, session_id: string, seq: number): Promise<string> {
  const { messages } = await runtime.dispatch("readHistory", { session_id });
  const message = messages.find((one) => one.seq === seq);
  return message === undefined ? `seq ${seq}` : `seq ${seq}, ${oneLine(messageText(message), MESSAGE_CHARS_MAX)}`;
}
