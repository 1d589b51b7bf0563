import { useSignal } from "@preact/signals";
import type { Content } from "@rkat/core/contract/message";
import type { SessionInfo } from "@rkat/core/contract/session-info";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { Comparison } from "../comparison.tsx";
import { formatCost, formatCount, formatDuration, formatId, formatTime, formatTokens } from "../format.ts";
import { Action, Badge, Note, Spinner, textField } from "../parts.tsx";
import { PromptBox } from "../prompt-box.tsx";
import { linkTo, route } from "../router.ts";
import { client, hasCapability, hasScope } from "../server.ts";
import { openSessionView, type SessionView } from "../session-view.ts";
import { parentageOf } from "../sub-agents.ts";
import { Transcript } from "../transcript.tsx";
import { LongText } from "../transcript-text.tsx";
import { CompactionScreen } from "./session-compaction.tsx";
import { CompactionsScreen } from "./session-compactions.tsx";
import { ContextScreen, ContextStrip } from "./session-context.tsx";
import { InboxScreen } from "./session-inbox.tsx";
import { TimelineScreen } from "./session-timeline.tsx";
import { TONES } from "./sessions.tsx";

/** The route `#/sessions/ID` and those below it. All of them share one view of the session. */
export function SessionScreen({ path }: { path: readonly string[] }): JSX.Element {
  const [id = "", part, which] = path;
  const view = useMemo(() => openSessionView(id), [id]);
  useEffect(() => () => view.close(), [view]);
  if (view.info.value === undefined) {
    if (view.problem.value === undefined) return <Spinner label="Loading" />;
    return (
      <div class="stack">
        <h1>Session</h1>
        <Note kind="bad">
          <bdi>{view.problem}</bdi>
        </Note>
        <a href={linkTo(["sessions"])}>All sessions</a>
      </div>
    );
  }
  return (
    <div class={`session ${part === undefined ? "whole" : ""}`}>
      <Head view={view} part={part} />
      <Body view={view} part={part} which={which} />
    </div>
  );
}

function Body(props: { view: SessionView; part: string | undefined; which: string | undefined }): JSX.Element {
  const { view, part, which } = props;
  if (part === "inbox") return <InboxScreen view={view} />;
  if (part === "timeline") return <TimelineScreen view={view} />;
  if (part === "context") return <ContextScreen view={view} seq={numberOf(which)} />;
  if (part === "compactions" && which !== undefined) return <CompactionScreen key={which} view={view} id={which} />;
  if (part === "compactions") return <CompactionsScreen view={view} />;
  return (
    <>
      <ContextStrip view={view} />
      <Transcript key={view.id} view={view} seq={numberOf(route.value.query.get("seq") ?? undefined)} />
      <div class="session-foot">
        <Comparison view={view} />
        <Approvals view={view} />
        <GoalLine view={view} />
        <SessionPrompt view={view} />
      </div>
    </>
  );
}

function numberOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

const TABS = [
  ["Transcript", undefined],
  ["Timeline", "timeline"],
  ["Context", "context"],
  ["Compactions", "compactions"],
  ["Inbox and jobs", "inbox"],
] as const;

function Head({ view, part }: { view: SessionView; part: string | undefined }): JSX.Element | null {
  const info = view.info.value;
  if (info === undefined) return null;
  const { state, usage } = info;
  const parentage = parentageOf(info.labels);
  const counts: Readonly<Record<string, number>> = {
    compactions: view.compactions.value.length,
    inbox: view.inbox.value.length,
  };
  return (
    <header class="session-head">
      <div class="row">
        <h1 class="session-title" title={view.id}>
          <bdi>{info.title || `Session ${formatId(view.id)}`}</bdi>
        </h1>
        <Badge tone={TONES[state] ?? "plain"}>{state}</Badge>
        {!view.isConnected.value && (
          <span class="badge warn" role="status">
            Connection lost. Reconnecting …
          </span>
        )}
        <span class="grow" />
        {hasScope("run") && state !== "archived" && (
          <Action
            class="quiet"
            title="An archived session can be read but runs no more turns"
            run={async () => {
              await view.handle.archive();
              await view.refresh();
            }}
          >
            Archive
          </Action>
        )}
      </div>
      <div class="row session-facts">
        {parentage !== undefined && (
          <a href={linkTo(["sessions", parentage.parent])}>
            Sub-agent <bdi>{parentage.agent}</bdi> of {formatId(parentage.parent)}
          </a>
        )}
        <span>
          <bdi>{info.model}</bdi>
        </span>
        <span>{formatCount(view.count.value)} messages</span>
        <span title={usage === undefined ? "" : `${usage.input_tokens} input, ${usage.output_tokens} output`}>
          {formatTokens(info.total_tokens)} tokens
        </span>
        {info.cost !== undefined && <span>{formatCost(info.cost)}</span>}
        <span title={view.id}>{formatId(view.id)}</span>
        <span>{formatTime(info.updated_at)}</span>
        {Object.entries(info.labels ?? {}).map(([key, value]) => (
          <Badge key={key}>
            <bdi>
              {key}={value}
            </bdi>
          </Badge>
        ))}
        {(info.budgets ?? []).map((budget) => (
          <Gauge key={budget.type} budget={budget} />
        ))}
      </div>
      {state === "failed" && (
        <Note kind="bad">
          The last turn failed; the <a href={linkTo(["sessions", view.id, "timeline"])}>timeline</a> shows its error.
          The next message continues from there.
        </Note>
      )}
      {state === "interrupted" && (
        <Note kind="plain">
          The process ended during a turn. The messages up to that point are kept; the next message continues from
          there.
        </Note>
      )}
      {view.problem.value !== undefined && view.isConnected.value && (
        <Note kind="bad">
          <bdi>{view.problem}</bdi>
        </Note>
      )}
      <nav class="session-tabs" aria-label="Session views">
        {TABS.filter(([, of]) => of !== "compactions" || hasCapability("session_compaction")).map(([name, of]) => (
          <a
            key={name}
            href={linkTo(["sessions", view.id, ...(of === undefined ? [] : [of])])}
            aria-current={of === part ? "page" : undefined}
          >
            {name}
            {(counts[of ?? ""] ?? 0) > 0 ? ` (${counts[of ?? ""]})` : ""}
          </a>
        ))}
      </nav>
    </header>
  );
}

type Budget = NonNullable<SessionInfo["budgets"]>[number];

const BUDGET_NAMES = { tokens: "tokens", time: "time per turn", tool_calls: "tool calls", cost: "cost" } as const;

/** A limit of the session and how much of it is used. */
function Gauge({ budget }: { budget: Budget }): JSX.Element {
  const { type, limit, used } = budget;
  if (used === undefined) {
    return (
      <span class="gauge">
        {BUDGET_NAMES[type]}: limit {amountOf(type, limit)}
      </span>
    );
  }
  const label = `${BUDGET_NAMES[type]}: ${amountOf(type, used)} of ${amountOf(type, limit)}`;
  const share = limit === 0 ? 1 : used / limit;
  return (
    <span class={`gauge ${share >= 1 ? "bad" : share >= 0.8 ? "warn" : ""}`}>
      <meter min={0} max={limit} high={limit * 0.8} value={Math.min(used, limit)} aria-label={label} />
      {label}
    </span>
  );
}

function amountOf(type: Budget["type"], amount: number): string {
  switch (type) {
    case "tokens":
      return formatTokens(amount);
    case "time":
      return formatDuration(amount);
    case "tool_calls":
      return formatCount(amount);
    case "cost":
      return formatCost({ amount });
  }
}

function GoalLine({ view }: { view: SessionView }): JSX.Element | null {
  const goal = view.info.value?.goal;
  if (goal === undefined) return null;
  const { until, phase, turns, max_turns, reason } = goal;
  const end = async (): Promise<void> => {
    await view.handle.endGoal();
    await view.refresh();
  };
  return (
    <div class="row session-goal" role="status" aria-label="Goal">
      <Badge tone={phase === "active" || phase === "reached" ? "good" : "warn"}>goal: {phase.replace("_", " ")}</Badge>
      <bdi>{Object.values(until).join("")}</bdi>
      <span>
        turn {turns} of {max_turns}
      </span>
      {reason !== undefined && <bdi>{reason}</bdi>}
      {phase === "active" && hasScope("run") && <Action run={end}>End goal</Action>}
    </div>
  );
}

type Approval = SessionView["approvals"]["value"][number];

function Approvals({ view }: { view: SessionView }): JSX.Element | null {
  if (view.approvals.value.length === 0) return null;
  return (
    <section class="approvals" aria-label="Pending approvals">
      {view.approvals.value.map((approval) => (
        <ApprovalCard key={approval.approval_id} view={view} approval={approval} />
      ))}
    </section>
  );
}

type Reply = {
  readonly decision: "allow" | "deny";
  readonly content?: Record<string, unknown>;
  readonly remember?: "session" | "project";
  readonly reason?: string;
};

function ApprovalCard({ view, approval }: { view: SessionView; approval: Approval }): JSX.Element {
  const { session_id, approval_id, calls, expires_at } = approval;
  const answer = async (ids: readonly string[], reply: Reply): Promise<void> => {
    await client()
      .session(session_id)
      .answerApproval({ approvalId: approval_id, calls: [...ids], ...reply });
    await view.refresh();
  };
  const all = calls.map(({ id }) => id);
  return (
    <div class="card approval">
      <h2>
        {calls.length === 1 ? "A tool call is" : `${calls.length} tool calls are`} waiting for approval{" "}
        <Badge tone="warn">expires {formatTime(expires_at)}</Badge>{" "}
        {session_id !== view.id && <a href={linkTo(["sessions", session_id])}>from a sub-agent</a>}
      </h2>
      {calls.map((call) => (
        <div key={call.id} class="approval-call">
          <p>
            <bdi class="mono">{call.name}</bdi> wants to run: <span class="soft text">{call.why}</span>
          </p>
          <LongText text={JSON.stringify(call.args, null, 2)} isCode />
          {call.question && <LongText text={`MCP server ${call.question.server} asks: ${call.question.message}`} />}
          {call.question && <LongText text={JSON.stringify(call.question.schema, null, 2)} isCode />}
          {hasScope("approve") && <CallReplies call={call} reply={(given) => answer([call.id], given)} />}
        </div>
      ))}
      {!hasScope("approve") && (
        <p class="soft">
          To answer here, use a token with the approve scope; <code>rkat console</code> makes one. On the server, you
          can also run <code>rkat session approve {session_id}</code>.
        </p>
      )}
      {hasScope("approve") && calls.length > 1 && !calls.some(({ question }) => question) && (
        <div class="row">
          <Action run={() => answer(all, { decision: "allow" })}>Allow all {calls.length} once</Action>
          <Action class="danger" run={() => answer(all, { decision: "deny" })}>
            Deny all
          </Action>
        </div>
      )}
    </div>
  );
}

/** The answers to one call: once, always within a reach, or no, with a reason. */
function CallReplies(props: { call: Approval["calls"][number]; reply: (given: Reply) => Promise<void> }): JSX.Element {
  const { call, reply } = props;
  const reason = useSignal("");
  const { always = [], question } = call;
  const allow = async (): Promise<void> =>
    reply({ decision: "allow", ...(question && { content: JSON.parse(reason.value || "{}") }) });
  const deny = (): Promise<void> => {
    const given = question === undefined ? reason.value.trim() : "";
    return reply({ decision: "deny", ...(given === "" ? {} : { reason: given }) });
  };
  return (
    <>
      <div class="row">
        <Action class="primary" run={allow}>
          {question === undefined ? "Allow once" : "Answer"}
        </Action>
        {always.length > 0 &&
          (["session", "project"] as const).map((remember) => (
            <Action key={remember} run={() => reply({ decision: "allow", remember })}>
              Always in this {remember}
            </Action>
          ))}
        <span class="grow" />
        <input
          aria-label={
            question ? `Answer to ${question.server}, as JSON` : `Reason for denying ${call.name}, sent to the model`
          }
          placeholder={question ? "Answer (JSON)" : "Reason (sent to the model)"}
          {...textField(reason)}
        />
        <Action class="danger" run={deny}>
          Deny
        </Action>
      </div>
      {always.length > 0 && (
        <p class="soft">
          Always will also allow:{" "}
          {always.map((rule) => (
            <bdi key={rule} class="mono">
              {rule}{" "}
            </bdi>
          ))}
        </p>
      )}
    </>
  );
}

function SessionPrompt({ view }: { view: SessionView }): JSX.Element | null {
  const info = view.info.value;
  if (!hasScope("run") || info === undefined || info.state === "archived") return null;
  const stop = async (): Promise<void> => {
    await view.handle.interrupt();
    await view.refresh();
  };
  return (
    <PromptBox
      draft={view.id}
      send={(content) => startTurn(view, content)}
      {...(info.state === "running" ? { stop } : {})}
    />
  );
}

/** Resolves when the turn has started; the transcript shows the rest, and the error of a turn that fails later. */
function startTurn(view: SessionView, content: Content): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const run = async (): Promise<void> => {
    try {
      for await (const _ of view.handle.stream(content, { whenBusy: "queue" })) resolve();
      resolve();
    } catch (thrown) {
      reject(thrown);
    }
    view.refresh().catch(() => {}); // The session view reports a lost connection.
  };
  void run();
  return promise;
}
