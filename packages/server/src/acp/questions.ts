import type { AgentContext, PermissionOption } from "@agentclientprotocol/sdk";
import type { AgentEventOf } from "@rkat/core/contract/event";
import type { AskedCall } from "@rkat/core/contract/permission";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { describeCall } from "./tool-calls.ts";

type Question = AgentEventOf<"tool_approval_requested">;

/** The answer of an option. */
const WORDS: Readonly<Record<string, object>> = {
  once: { decision: "allow" },
  session: { decision: "allow", remember: "session" },
  project: { decision: "allow", remember: "project" },
  no: { decision: "deny" },
};

interface AskParts {
  readonly client: AgentContext;
  readonly dispatch: Dispatch;
  readonly root: string;
  /** The session the client knows; a sub-agent's question is put in its parent's. */
  readonly askedIn: string;
  /** Aborts when the turn ends. */
  readonly signal: AbortSignal;
}

/** Asks the person about each call of a question, one after the other; resolves with false when the turn is to end. */
export async function askPerson(question: Question, parts: AskParts): Promise<boolean> {
  const { session_id, approval_id } = question;
  for (const call of question.calls) {
    const { title, kind, content, locations } = describeCall(call, parts.root);
    const shown = { title, kind, content, locations, rawInput: call.args };
    const { outcome } = await parts.client.request(
      "session/request_permission",
      {
        sessionId: parts.askedIn,
        toolCall: { toolCallId: call.id, name: call.name, status: "pending", ...given(shown) },
        options: optionsFor(call),
      },
      { cancellationSignal: parts.signal, stopWaitingOnCancel: true },
    );
    if (parts.signal.aborted || outcome.outcome === "cancelled") return false;
    // Anything but an offered option is a denial, also the name of an inherited property.
    const word = Object.hasOwn(WORDS, outcome.optionId) ? WORDS[outcome.optionId] : WORDS.no;
    await parts.dispatch("answerApproval", { session_id, approval_id, calls: [call.id], ...word });
  }
  return true;
}

/** Once, always and no; always only where a rule for it is safe. */
function optionsFor({ always }: AskedCall): PermissionOption[] {
  const rules = always?.join(", ");
  return [
    { optionId: "once", name: "Allow once", kind: "allow_once" },
    ...(rules === undefined
      ? []
      : [
          { optionId: "session", name: `Always in this session: ${rules}`, kind: "allow_always" } as const,
          { optionId: "project", name: `Always in this project: ${rules}`, kind: "allow_always" } as const,
        ]),
    { optionId: "no", name: "Do not allow", kind: "reject_once" },
  ];
}

/** The fields that have a value. */
function given<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  // Exactly the undefined values are dropped.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
