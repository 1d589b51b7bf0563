import { useSignal } from "@preact/signals";
import type { AgentEvent } from "@rkat/core/contract/event";
import type { ModelCalls } from "@rkat/core/contract/session-info";
import type { JSX } from "preact";
import { formatCost, formatDuration, formatTime, formatTokens } from "../format.ts";
import { Badge, Empty, Loaded, type Tone, useRequest } from "../parts.tsx";
import { linkTo } from "../router.ts";
import { call } from "../server.ts";
import type { SessionView } from "../session-view.ts";
import { excerpt, plainText } from "../transcript-text.tsx";

/** Only the newest events are read, in so many pages at most. */
const EVENTS_MAX = 2_000;
const PAGES_MAX = 20;
const TURNS_SHOWN = 10;

interface Step {
  readonly seq: number;
  readonly kind: "model" | "tool" | "compaction" | "approval";
  readonly name: string;
  readonly startMs: number;
  endMs?: number;
  isFailed?: boolean;
}

interface Turn {
  readonly seq: number;
  readonly prompt: string;
  readonly startMs: number;
  readonly steps: Step[];
  endMs?: number;
  state: "running" | "completed" | "failed";
  error?: string;
  cost?: { readonly amount: number } | undefined;
}

/** The turns of a session, newest first: their model calls, tools, compactions and approvals in time. */
export function TimelineScreen({ view }: { view: SessionView }): JSX.Element {
  const request = useRequest(
    async () => turnsIn(await readEvents(view)),
    [view, view.count.value, view.info.value?.state],
  );
  const shown = useSignal(TURNS_SHOWN);
  return (
    <section class="timeline" aria-label="Timeline">
      <p class="row soft">
        {Object.entries(KINDS).map(([kind, name]) => (
          <span key={kind} class="time-legend">
            <span class={`time-bar ${kind}`} aria-hidden="true" /> {name}
          </span>
        ))}
        <span>▏time to first token, for calls that this page saw</span>
      </p>
      <Loaded request={request}>
        {(turns) => (
          <>
            {turns.length === 0 && <Empty>No turns yet.</Empty>}
            {turns.slice(0, shown.value).map((turn) => (
              <TurnCard key={turn.seq} view={view} turn={turn} />
            ))}
            {turns.length > shown.value && (
              <button
                type="button"
                onClick={() => {
                  shown.value += TURNS_SHOWN;
                }}
              >
                Show earlier turns
              </button>
            )}
          </>
        )}
      </Loaded>
    </section>
  );
}

const KINDS: Readonly<Record<Step["kind"], string>> = {
  model: "model call",
  tool: "tool",
  compaction: "compaction",
  approval: "waiting for approval",
};
const TONES: Readonly<Record<Turn["state"], Tone>> = { running: "live", completed: "good", failed: "bad" };

function TurnCard({ view, turn }: { view: SessionView; turn: Turn }): JSX.Element {
  const { seq, prompt, startMs, steps, state, error, cost } = turn;
  const endMs = turn.endMs ?? Math.max(startMs, ...steps.map((step) => step.endMs ?? step.startMs));
  const lengthMs = Math.max(1, endMs - startMs);
  const calls = new Map(view.calls.value.calls.map((call) => [call.seq, call]));
  return (
    <section class="card turn" aria-label={`Turn from ${formatTime(startMs / 1_000)}`}>
      <h2 class="row">
        <a href={linkTo(["sessions", view.id], { seq })}>
          <bdi>{excerpt(prompt) || "(continued)"}</bdi>
        </a>
        <Badge tone={TONES[state]}>{state}</Badge>
        <span class="grow" />
        <span class="soft">
          {[formatTime(startMs / 1_000), formatDuration(endMs - startMs), formatCost(cost)].filter(Boolean).join(" · ")}
        </span>
      </h2>
      {error !== undefined && (
        <p class="note bad">
          <bdi>{excerpt(error)}</bdi>
        </p>
      )}
      <ol class="steps">
        {steps.map((step) => (
          <StepRow
            key={`${step.seq} ${step.name}`}
            step={step}
            call={calls.get(step.seq)}
            firstMs={step.kind === "model" ? view.firstTokenOf(step.seq) : undefined}
            place={(ms) => Math.min(100, Math.max(0, (100 * (ms - startMs)) / lengthMs))}
          />
        ))}
      </ol>
    </section>
  );
}

function StepRow(props: {
  step: Step;
  call: ModelCalls["calls"][number] | undefined;
  firstMs: number | undefined;
  place: (ms: number) => number;
}): JSX.Element {
  const { step, call, firstMs, place } = props;
  const { kind, name, startMs, endMs, isFailed } = step;
  const usage = call?.usage;
  const facts = [
    firstMs === undefined ? "" : `first token ${formatDuration(firstMs - startMs)}`,
    endMs === undefined ? "not ended" : formatDuration(endMs - startMs),
    usage === undefined ? "" : `${formatTokens(usage.input_tokens)} in, ${formatTokens(usage.output_tokens)} out`,
    formatCost(call?.cost),
  ];
  const from = place(startMs);
  return (
    <li>
      <span class="step-name">
        {kind === "model" ? (call?.model ?? name) : <bdi>{name}</bdi>}
        {isFailed === true && <Badge tone="bad">failed</Badge>}
      </span>
      <span class="time-track" aria-hidden="true">
        <span
          class={`time-bar ${kind}`}
          style={{ insetInlineStart: `${from}%`, width: `${Math.max(0.5, place(endMs ?? startMs) - from)}%` }}
        />
        {firstMs !== undefined && <span class="time-first" style={{ insetInlineStart: `${place(firstMs)}%` }} />}
      </span>
      <span class="soft step-facts">{facts.filter(Boolean).join(" · ")}</span>
    </li>
  );
}

interface TimedEvent {
  readonly seq: number;
  readonly atMs: number;
  readonly event: AgentEvent;
}

/** The newest events of a session, oldest first. */
export async function readEvents(view: SessionView): Promise<readonly TimedEvent[]> {
  const scope = { type: "session", session_id: view.id } as const;
  const { cursor } = await call("readEventCursor", { scope });
  const events: TimedEvent[] = [];
  let after = Math.max(0, cursor.sequence - EVENTS_MAX);
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const read = await call("listEvents", { scope, cursor: { scope, sequence: after } });
    for (const one of read.events) {
      events.push({ seq: one.cursor.sequence, atMs: one.timestamp_ms, event: one.payload });
    }
    after = read.events.at(-1)?.cursor.sequence ?? after;
    if (!read.has_more) break;
  }
  return events;
}

/** The turns that events tell of, newest first. A turn whose beginning was not read is left out. */
function turnsIn(events: readonly TimedEvent[]): readonly Turn[] {
  const turns: Turn[] = [];
  for (const { seq, atMs, event } of events) {
    if (event.type === "run_started") {
      turns.push({ seq, prompt: plainText(event.prompt), startMs: atMs, steps: [], state: "running" });
      continue;
    }
    const turn = turns.at(-1);
    if (turn !== undefined) addEvent(turn, seq, atMs, event);
  }
  return turns.reverse();
}

function addEvent(turn: Turn, seq: number, atMs: number, event: AgentEvent): void {
  const { steps } = turn;
  const begin = (kind: Step["kind"], name: string): void => void steps.push({ seq, kind, name, startMs: atMs });
  const end = (kind: Step["kind"], isFailed = false): void => {
    const step = steps.findLast((one) => one.kind === kind && one.endMs === undefined);
    if (step !== undefined) Object.assign(step, { endMs: atMs, isFailed });
  };
  switch (event.type) {
    case "turn_started":
      begin("model", "model call");
      return;
    case "reasoning_complete":
    case "text_complete":
    case "tool_call_requested":
    case "turn_completed":
      end("model");
      return;
    case "retrying":
      end("model", true);
      begin("model", "model call, again");
      return;
    case "tool_execution_completed": {
      const { name, duration_ms, is_error } = event;
      steps.push({ seq, kind: "tool", name, startMs: atMs - duration_ms, endMs: atMs, isFailed: is_error });
      return;
    }
    case "tool_approval_requested":
      begin("approval", `approval of ${event.calls.map((call) => call.name).join(", ")}`);
      return;
    case "tool_approval_answered":
      end("approval", event.decision === "deny");
      return;
    case "compaction_started":
      begin("compaction", "compaction");
      return;
    case "compaction_completed":
      end("compaction");
      return;
    case "compaction_failed":
      end("compaction", true);
      return;
    case "run_failed":
      end("model", true);
      Object.assign(turn, { endMs: atMs, state: "failed", error: event.error, cost: event.turn_cost });
      return;
    case "run_completed":
      end("model");
      Object.assign(turn, { endMs: atMs, state: "completed", cost: event.turn_cost });
      return;
  }
}
