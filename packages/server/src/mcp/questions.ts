import type { ElicitRequestFormParams, ElicitResult } from "@modelcontextprotocol/server";
import { questionIn } from "@rkat/core/contract/describe-event";
import type { AgentEvent, AgentEventOf } from "@rkat/core/contract/event";
import type { CallContext, Dispatch } from "@rkat/core/runtime/dispatch";
import type { Listener } from "@rkat/core/sessions/event-queue";

/** Asks the user through the client; absent where the client cannot. */
export type Elicit = (params: ElicitRequestFormParams) => Promise<ElicitResult>;

export type Question = Pick<AgentEventOf<"tool_approval_requested">, "session_id" | "approval_id" | "calls">;

const ARGS_CHARS_MAX = 4_000;
const WORDS: Readonly<Record<string, object>> = {
  once: { decision: "allow" },
  session: { decision: "allow", remember: "session" },
  project: { decision: "allow", remember: "project" },
  no: { decision: "deny" },
};

/** A listener that asks the client's user for each approval, and sends the answer to the runtime. */
export function askingClient(
  dispatch: Dispatch,
  elicit: Elicit,
  { next, call }: { readonly next: Listener | undefined; readonly call: CallContext },
): Listener {
  const ask = async (question: Question): Promise<void> => {
    const isServers = question.calls.some((one) => one.question !== undefined);
    for (const calls of isServers ? question.calls.map((one) => [one]) : [question.calls]) {
      const one = { ...question, calls };
      const answer = answerTo(one, await elicit(formFor(one)));
      if (answer !== undefined) await dispatch("answerApproval", answer, call);
    }
  };
  return (delivery) => {
    next?.(delivery);
    // A client that fails to ask leaves the question to others, until its time has passed.
    const question = questionIn(delivery.event);
    if (question !== undefined) ask(question).catch(() => {});
  };
}

/** The input of `answerApproval`; undefined for a dismissed question, which another client may answer. */
export function answerTo({ session_id, approval_id, calls }: Question, { action, content = {} }: Answered) {
  if (action === "cancel") return undefined;
  const [first] = calls;
  if (first?.question !== undefined) {
    const answer = action === "accept" ? { decision: "allow", content } : { decision: "deny" };
    return { session_id, approval_id, calls: [first.id], ...answer };
  }
  const { decision = "no", reason } = content;
  const word = (action === "accept" ? WORDS[String(decision)] : undefined) ?? WORDS.no;
  const why = typeof reason === "string" && reason !== "" ? { reason } : {};
  return { session_id, approval_id, ...word, ...why };
}

interface Answered {
  readonly action: string;
  readonly content?: Readonly<Record<string, unknown>> | undefined;
}

export function formFor({ calls }: Question): ElicitRequestFormParams {
  const asked = calls[0]?.question;
  if (asked !== undefined) {
    const message = `MCP server ${asked.server} asks: ${asked.message}`;
    // As the server's own client has checked it.
    return { mode: "form", message, requestedSchema: asked.schema as ElicitRequestFormParams["requestedSchema"] };
  }
  const wishes = calls.map(
    ({ name, args, why }) => `${name} ${JSON.stringify(args).slice(0, ARGS_CHARS_MAX)} (${why})`,
  );
  const canRemember = calls.every(({ always }) => always !== undefined);
  return {
    mode: "form",
    message: `May it run?\n${wishes.join("\n")}`,
    requestedSchema: {
      type: "object",
      properties: {
        decision: {
          type: "string",
          title: "Decision",
          description: "once, for calls like it in the session or the project, or no",
          enum: canRemember ? Object.keys(WORDS) : ["once", "no"],
        },
        reason: { type: "string", title: "Reason", description: "why not; the model gets it" },
      },
      required: ["decision"],
    },
  };
}

/** What a client is told of a running turn. */
export function stepOf(event: AgentEvent): string | undefined {
  if (event.type === "turn_started") return `model call ${event.turn_number + 1}`;
  if (event.type === "tool_execution_started") return `tool ${event.name}`;
  if (event.type === "compaction_started") return "compaction";
  return undefined;
}
