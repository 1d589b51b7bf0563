import type { ElicitRequestFormParams, ElicitResult } from "@modelcontextprotocol/sdk/types.js";
import { questionIn } from "@rkat/core/contract/describe-event";
import type { AgentEventOf } from "@rkat/core/contract/event";
import type { CallContext, Dispatch } from "@rkat/core/runtime/dispatch";
import type { Listener } from "@rkat/core/sessions/event-queue";

/** Asks the user through the client; absent where the client cannot. */
export type Elicit = (params: ElicitRequestFormParams) => Promise<ElicitResult>;

type Question = AgentEventOf<"tool_approval_requested">;

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
    const { session_id, approval_id } = question;
    const { action, content = {} } = await elicit(formFor(question));
    const { decision = "no", reason } = content;
    // A dismissed question is not an answer; another client may answer it.
    if (action === "cancel") return;
    const word = (action === "accept" ? WORDS[String(decision)] : undefined) ?? WORDS.no;
    const why = typeof reason === "string" && reason !== "" ? { reason } : {};
    await dispatch("answerApproval", { session_id, approval_id, ...word, ...why }, call);
  };
  return (delivery) => {
    next?.(delivery);
    // A client that fails to ask leaves the question to others, until its time has passed.
    const question = questionIn(delivery.event);
    if (question !== undefined) ask(question).catch(() => {});
  };
}

function formFor({ calls }: Question): ElicitRequestFormParams {
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
