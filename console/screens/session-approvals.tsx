import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { formatTime } from "../format.ts";
import { Action, Badge } from "../parts.tsx";
import { linkTo } from "../router.ts";
import { client, may } from "../server.ts";
import type { SessionView } from "../session-view.ts";
import { LongText } from "../transcript-text.tsx";

type Approval = SessionView["approvals"]["value"][number];

/** The questions about tool calls that wait for a person's word. */
export function Approvals({ view }: { view: SessionView }): JSX.Element | null {
  if (view.approvals.value.length === 0) return null;
  return (
    <section class="approvals" aria-label="Questions about tool calls">
      {view.approvals.value.map((approval) => (
        <Question key={approval.approval_id} view={view} approval={approval} />
      ))}
    </section>
  );
}

function Question({ view, approval }: { view: SessionView; approval: Approval }): JSX.Element {
  const { session_id, approval_id, calls, expires_at } = approval;
  const reason = useSignal("");
  const always = [...new Set(calls.flatMap((call) => call.always ?? []))];
  const answer =
    (decision: "allow" | "deny", remember: "once" | "session" | "project" = "once") =>
    async (): Promise<void> => {
      const why = decision === "deny" && reason.value.trim() !== "" ? { reason: reason.value.trim() } : {};
      await client()
        .session(session_id)
        .answerApproval({ approvalId: approval_id, decision, remember, ...why });
      await view.refresh();
    };
  return (
    <div class="card approval">
      <h2>
        {calls.length === 1 ? "A tool call waits" : `${calls.length} tool calls wait`} for your word{" "}
        <Badge tone="warn">until {formatTime(expires_at)}</Badge>{" "}
        {session_id !== view.id && <a href={linkTo(["sessions", session_id])}>asked by a sub-agent</a>}
      </h2>
      {calls.map((call) => (
        <div key={call.id} class="approval-call">
          <p>
            <bdi class="mono">{call.name}</bdi> <span class="soft text">{call.why}</span>
          </p>
          <LongText text={JSON.stringify(call.args, null, 2)} isCode />
        </div>
      ))}
      {!may("approve") && (
        <p class="soft">
          To answer here one needs a token with the scope approve. On the machine of the server,{" "}
          <code>rkat session approve {session_id}</code> does it too.
        </p>
      )}
      {may("approve") && (
        <div class="row">
          <Action class="primary" does={answer("allow")}>
            Allow once
          </Action>
          {always.length > 0 && (
            <>
              <Action does={answer("allow", "session")} title={`Adds for the session: ${always.join(", ")}`}>
                Allow for the session
              </Action>
              <Action does={answer("allow", "project")} title={`Adds for the project: ${always.join(", ")}`}>
                Allow for the project
              </Action>
            </>
          )}
          <span class="grow" />
          <input
            aria-label="Why not, in words the model is told"
            placeholder="Why not (the model is told)"
            value={reason}
            onInput={(event) => {
              reason.value = event.currentTarget.value;
            }}
          />
          <Action class="danger" does={answer("deny")}>
            Deny
          </Action>
        </div>
      )}
      {may("approve") && always.length > 0 && (
        <p class="soft">
          For the session or the project, calls like these run without a question:{" "}
          {always.map((rule) => (
            <bdi key={rule} class="mono">
              {rule}{" "}
            </bdi>
          ))}
        </p>
      )}
    </div>
  );
}
