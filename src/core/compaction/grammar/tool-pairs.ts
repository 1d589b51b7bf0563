import type { AssistantMessage, Message, ToolResultsMessage } from "../../../contract/message.ts";
import type { Fault } from "./fault.ts";

/** How a wire pairs calls with results. */
export interface PairRules {
  /** Whether a message reaches the wire; one that does not stands between nothing. */
  isSent(message: Message): boolean;
  /** An id as it stands on the wire; two that become one there collide. */
  wireId(id: string): string;
  /** Whether the results of one batch may come in several messages, because the wire is flat or they are joined. */
  readonly takesSplitResults: boolean;
  /** Whether an id may not come back later in the conversation either. */
  readonly wantsUniqueIds: boolean;
}

/**
 * Every call is answered once, right after it, and no result stands alone. This is the fault compactions make most: a
 * cut between a call and its results, or through a parallel batch, is refused with every request from then on. The AI
 * SDK adapter drops a result without its call, which saves the request and loses the result: it counts as a fault too.
 */
export function pairFault(messages: readonly Message[], rules: PairRules): Fault | undefined {
  const pairing: Pairing = { rules, askedAt: 0, open: new Set(), answered: new Set(), asked: new Set() };
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message === undefined) continue;
    const fault = readMessage(pairing, message, at);
    if (fault !== undefined) return fault;
  }
  return pairing.open.size === 0 ? undefined : unanswered(pairing, "which the context ends with");
}

interface Pairing {
  readonly rules: PairRules;
  /** Where the newest calls stand. */
  askedAt: number;
  /** Calls of the newest answer without a result, and those with one. */
  readonly open: Set<string>;
  readonly answered: Set<string>;
  /** Every call so far, where ids have to be unique. */
  readonly asked: Set<string>;
}

function readMessage(pairing: Pairing, message: Message, at: number): Fault | undefined {
  switch (message.role) {
    case "block_assistant":
      return readCalls(pairing, message, at);
    case "tool_results":
      return readResults(pairing, message, at);
    case "system":
    case "system_notice":
    case "user":
      if (!pairing.rules.isSent(message)) return undefined;
      if (pairing.open.size > 0) return unanswered(pairing, `before the ${message.role} message ${at}`);
      pairing.answered.clear();
      return undefined;
  }
}

function readCalls(pairing: Pairing, message: AssistantMessage, at: number): Fault | undefined {
  const { open, answered, asked, rules } = pairing;
  // Also an answer that says nothing: adapters look for the calls of a result in the newest answer only.
  if (open.size > 0) return unanswered(pairing, `before the answer ${at}`);
  answered.clear();
  pairing.askedAt = at;
  // Calls that were cut off never ran, and are not sent.
  if (message.stop_reason === "cancelled") return undefined;
  for (const block of message.blocks) {
    if (block.block_type !== "tool_use") continue;
    const id = rules.wireId(block.data.id);
    if (open.has(id) || asked.has(id)) return { at, fault: `the call id ${id} is used twice` };
    open.add(id);
    if (rules.wantsUniqueIds) asked.add(id);
  }
  return undefined;
}

function readResults(pairing: Pairing, message: ToolResultsMessage, at: number): Fault | undefined {
  const { open, answered, rules } = pairing;
  for (const { tool_use_id } of message.results) {
    const id = rules.wireId(tool_use_id);
    if (answered.has(id)) return { at, fault: `the call ${id} has two results` };
    if (!open.delete(id)) return { at, fault: `the result of ${id} has no call in the answer before it` };
    answered.add(id);
  }
  if (open.size === 0 || rules.takesSplitResults || message.results.length === 0) return undefined;
  return unanswered(pairing, `in the results ${at} of its batch`);
}

function unanswered({ open, askedAt }: Pairing, where: string): Fault {
  const [id] = open;
  return { at: askedAt, fault: `the call ${id} has no result ${where}` };
}
