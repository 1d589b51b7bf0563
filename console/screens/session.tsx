import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { ContextStrip } from "../context-strip.tsx";
import { formatCost, formatCount, formatId, formatTime, formatTokens } from "../format.ts";
import { Action, Badge, Note, Spinner } from "../parts.tsx";
import { linkTo, place } from "../router.ts";
import { has, may } from "../server.ts";
import { openSessionView, type SessionView } from "../session-view.ts";
import { parentageOf } from "../sub-agents.ts";
import { Transcript } from "../transcript.tsx";
import { Approvals } from "./session-approvals.tsx";
import { Budgets } from "./session-budgets.tsx";
import { CompactionScreen } from "./session-compaction.tsx";
import { CompactionsScreen } from "./session-compactions.tsx";
import { ContextScreen } from "./session-context.tsx";
import { PromptBox } from "./session-prompt.tsx";
import { TONES } from "./sessions.tsx";

/** `#/sessions/ID` and what is below it; one view of the session serves all of them. */
export function SessionScreen({ path }: { path: readonly string[] }): JSX.Element {
  const [id = "", part, which] = path;
  const view = useMemo(() => openSessionView(id), [id]);
  useEffect(() => () => view.close(), [view]);
  if (view.info.value === undefined) {
    if (view.problem.value === undefined) return <Spinner what="Loading" />;
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
  if (part === "context") return <ContextScreen view={view} seq={numberOf(which)} />;
  if (part === "compactions" && which !== undefined) return <CompactionScreen key={which} view={view} id={which} />;
  if (part === "compactions") return <CompactionsScreen view={view} />;
  return (
    <>
      <ContextStrip id={view.id} calls={view.calls.value} />
      <Transcript key={view.id} view={view} seq={numberOf(place.value.query.get("seq") ?? undefined)} />
      <div class="session-foot">
        <Approvals view={view} />
        <PromptBox view={view} />
      </div>
    </>
  );
}

function numberOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

const TABS = [
  ["Transcript", undefined],
  ["Context", "context"],
  ["Compactions", "compactions"],
] as const;

function Head({ view, part }: { view: SessionView; part: string | undefined }): JSX.Element | null {
  const info = view.info.value;
  if (info === undefined) return null;
  const { state, usage } = info;
  const parentage = parentageOf(info.labels);
  return (
    <header class="session-head">
      <div class="row">
        <h1 class="session-title" title={view.id}>
          <bdi>{info.title || `Session ${formatId(view.id)}`}</bdi>
        </h1>
        <Badge tone={TONES[state] ?? "plain"}>{state}</Badge>
        {!view.isHearing.value && (
          <span class="badge warn" role="status">
            The server is away; this page goes on when it is back
          </span>
        )}
        <span class="grow" />
        {may("run") && state !== "archived" && (
          <Action
            class="quiet"
            title="It stays readable and runs no more turns"
            does={async () => {
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
        <span title={usage === undefined ? "" : `${usage.input_tokens} in, ${usage.output_tokens} out`}>
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
        <Budgets info={info} />
      </div>
      {state === "interrupted" && (
        <Note kind="plain">
          Its process ended within a turn. What was said until then is kept; the next prompt goes on from there.
        </Note>
      )}
      {view.problem.value !== undefined && view.isHearing.value && (
        <Note kind="bad">
          <bdi>{view.problem}</bdi>
        </Note>
      )}
      <nav class="session-tabs" aria-label="Parts of the session">
        {TABS.filter(([, of]) => of !== "compactions" || has("session_compaction")).map(([name, of]) => (
          <a
            key={name}
            href={linkTo(["sessions", view.id, ...(of === undefined ? [] : [of])])}
            aria-current={of === part ? "page" : undefined}
          >
            {name}
            {of === "compactions" && view.compactions.value.length > 0 ? ` (${view.compactions.value.length})` : ""}
          </a>
        ))}
      </nav>
    </header>
  );
}
