import { useSignal } from "@preact/signals";
import type { ModelCalls, SessionContext } from "@rkat/core/contract/session-info";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { formatCost, formatCount, formatTime, formatTokens } from "../format.ts";
import { Badge, Loaded, useRequest } from "../parts.tsx";
import { linkTo, navigate } from "../router.ts";
import { call } from "../server.ts";
import type { SessionView } from "../session-view.ts";
import { MessageBody, ROLE_NAMES } from "../transcript-message.tsx";
import { VirtualList } from "../virtual-list.tsx";

const ROW_PX = 90;

/** The exact context of a model call, or the current one. Messages that were removed since are marked. */
export function ContextScreen({ view, seq }: { view: SessionView; seq: number | undefined }): JSX.Element {
  // The current context changes with new messages, compactions and pins.
  const inputs = seq === undefined ? [view.count.value, view.compactions.value, view.pins.value] : [];
  const request = useRequest(() => call("readContext", { session_id: view.id, at_seq: seq }), [view, seq, ...inputs]);
  const { calls } = view.calls.value;
  const index = calls.findIndex((call) => call.seq === seq);
  const [before, after] = index < 0 ? [calls.at(-1), undefined] : [calls[index - 1], calls[index + 1]];
  return (
    <>
      <ContextStrip view={view} openSeq={seq} />
      <section class="context" aria-label="Context">
        <div class="row">
          <h2>
            {seq === undefined ? "Current context" : `Context of model call #${seq}`}
            {calls[index] !== undefined && <span class="soft"> · {formatTime(calls[index]?.at ?? "")}</span>}
          </h2>
          <span class="grow" />
          {before !== undefined && (
            <a href={linkTo(["sessions", view.id, "context", String(before.seq)])}>Previous call</a>
          )}
          {after !== undefined && <a href={linkTo(["sessions", view.id, "context", String(after.seq)])}>Next call</a>}
          {seq !== undefined && <a href={linkTo(["sessions", view.id, "context"])}>Current</a>}
        </div>
        <Loaded request={request}>
          {(context) => <ContextMessages view={view} context={context} isPast={seq !== undefined} />}
        </Loaded>
      </section>
    </>
  );
}

type ContextMessage = SessionContext["messages"][number];

function ContextMessages(props: { view: SessionView; context: SessionContext; isPast: boolean }): JSX.Element {
  const { view, context, isPast } = props;
  const { messages, parts, estimated_tokens, tool_tokens, auto_compact_threshold, next_call_cost } = context;
  const indexes = useMemo(() => messages.map((_, index) => index), [messages]);
  const isRemoved = (message: ContextMessage): boolean => isPast && isRemovedSince(view, message);
  const removed = messages.filter(isRemoved).length;
  return (
    <>
      <p class="soft">
        {formatCount(messages.length)} messages, about {formatCount(estimated_tokens)} tokens, plus{" "}
        {formatCount(tool_tokens)} for tool definitions.{" "}
        {!isPast && next_call_cost
          ? `The next call pays about ${formatCost({ amount: next_call_cost })} for them. `
          : ""}
        {!isPast && auto_compact_threshold !== undefined
          ? `Compaction is due at about ${formatCount(auto_compact_threshold)} tokens. `
          : ""}
        {isPast &&
          (removed === 0 ? "All are still in context." : `${formatCount(removed)} messages were removed since.`)}
      </p>
      <VirtualList
        items={indexes}
        keyOf={String}
        estimate={ROW_PX}
        label="Messages in context"
        renderRow={(index) => {
          const message = messages[index];
          if (message === undefined) return null;
          const part = parts.find(({ seqs: [from, to] }) => from <= message.seq && message.seq <= to);
          const kind = message.role === "tool_results" ? "tool_output" : (part?.kind ?? "turn");
          return (
            <div class={`message in-context ${isRemoved(message) ? "removed" : ""}`} data-seq={message.seq}>
              <span class={`part-edge part-${kind}`} aria-hidden="true" />
              <div class="message-head">
                <strong>{kind === "summary" ? "Summary" : ROLE_NAMES[message.role]}</strong>
                {kind === "summary" && message.role === "user" && message.compaction_id !== undefined ? (
                  <a href={linkTo(["sessions", view.id, "compactions", message.compaction_id])}>show compaction</a>
                ) : (
                  <a class="soft" href={linkTo(["sessions", view.id], { seq: message.seq })}>
                    #{message.seq}
                  </a>
                )}
                {part !== undefined && part.seqs[0] === message.seq && (
                  <span class="soft">
                    {part.kind}: {formatTokens(part.estimated_tokens)} tokens
                  </span>
                )}
                {isRemoved(message) && <Badge>removed since</Badge>}
              </div>
              <MessageBody message={message} next={messages[index + 1]} />
            </div>
          );
        }}
      />
    </>
  );
}

function isRemovedSince(view: SessionView, message: ContextMessage): boolean {
  if (message.role !== "user" || message.compaction_id === undefined) return view.isRemoved.value(message.seq);
  const latest = view.compactions.value.findLast(({ undone }) => !undone);
  return latest?.compaction_id !== message.compaction_id;
}

/** The parts of a context with their names, from the bottom of a bar to its top. */
const PARTS = [
  ["tools", "tool definitions"],
  ["system", "system prompt"],
  ["summary", "summary"],
  ["work_state", "work state"],
  ["agents_md", "AGENTS.md"],
  ["pinned", "pinned"],
  ["expanded", "brought back"],
  ["memory", "memory"],
  ["turn", "turns"],
  ["tool_output", "tool output"],
  ["evicted", "evicted tool output"],
] as const;
type Part = (typeof PARTS)[number][0];

const HEIGHT = 88;
const STEP_MIN = 7;
const STEP_MAX = 26;
/** A limit higher than this multiple of the largest bar is shown in the legend only: it would flatten the bars. */
const LIMIT_FACTOR_MAX = 2.5;

type ModelCall = ModelCalls["calls"][number];
type Mark = ModelCalls["compactions"][number];
type Item =
  | { readonly kind: "call"; readonly seq: number; readonly call: ModelCall }
  | { readonly kind: "compaction"; readonly seq: number; readonly mark: Mark };

/** One stacked bar per model call with the limits of the context; compactions are marks between the bars. */
export function ContextStrip(props: { view: SessionView; openSeq?: number | undefined }): JSX.Element {
  const { id } = props.view;
  const { calls, compactions } = props.view.calls.value;
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(600);
  const focused = useSignal<number | undefined>(undefined);
  useEffect(() => {
    if (box.current === null) return;
    const sizes = new ResizeObserver(([entry]) => {
      width.value = entry?.contentRect.width ?? width.value;
    });
    sizes.observe(box.current);
    return () => sizes.disconnect();
  }, []);
  // The strip starts at its right end, with the latest call.
  useLayoutEffect(() => {
    if (box.current !== null) box.current.scrollLeft = box.current.scrollWidth;
  }, [calls.length]);

  const first = calls[0]?.seq ?? 0;
  const items: readonly Item[] = [
    ...calls.map((call): Item => ({ kind: "call", seq: call.seq, call })),
    ...compactions.filter(({ seq }) => seq > first).map((mark): Item => ({ kind: "compaction", seq: mark.seq, mark })),
  ].sort((one, other) => one.seq - other.seq);
  const newest = calls.at(-1);
  const current =
    items.find(({ seq }) => seq === (focused.value ?? props.openSeq)) ?? items.findLast(({ kind }) => kind === "call");
  const step = Math.max(STEP_MIN, Math.min(STEP_MAX, width.value / Math.max(1, items.length)));
  const scale = scaleOf(calls);
  const yOf = (tokens: number): number => HEIGHT - (tokens / scale) * HEIGHT;
  const limits = [
    ["threshold", newest?.threshold],
    ["window", newest?.context_window],
  ] as const;

  const move = (event: KeyboardEvent): void => {
    const from = current === undefined ? -1 : items.indexOf(current);
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: items.length - 1 }[event.key];
    const next = to === undefined ? undefined : items[Math.max(0, Math.min(items.length - 1, to))];
    if (next === undefined || !(event.currentTarget instanceof Element)) return;
    event.preventDefault();
    const link = event.currentTarget.querySelector<SVGAElement>(`[data-seq="${next.seq}"]`);
    link?.focus();
    focused.value = next.seq;
  };

  return (
    <figure class="strip">
      <div class="strip-box" ref={box}>
        <svg
          height={HEIGHT + 10}
          width={Math.max(width.value, step * items.length)}
          role="toolbar"
          aria-label="Context size at each model call; use the arrow keys to move between calls"
          onKeyDown={move}
          onMouseLeave={() => {
            focused.value = undefined;
          }}
        >
          {limits.map(([name, tokens]) =>
            tokens === undefined || tokens > scale ? null : (
              <line
                key={name}
                class={`strip-limit ${name}`}
                x1="0"
                x2="100%"
                y1={yOf(tokens) + 0.5}
                y2={yOf(tokens) + 0.5}
              />
            ),
          )}
          {items.map((item, index) => (
            <StripLink
              key={item.seq}
              {...{ id, item, isCurrent: item === current, isOpen: item.seq === props.openSeq }}
              x={index * step}
              width={step}
              yOf={yOf}
              onFocus={() => {
                focused.value = item.seq;
              }}
            />
          ))}
        </svg>
      </div>
      <figcaption>
        <Caption
          item={current}
          isSelected={focused.value !== undefined || props.openSeq !== undefined}
          {...{ limits, scale }}
        />
      </figcaption>
    </figure>
  );
}

/** The tokens at the top of the chart: the largest context, or a limit that is not far above it. */
function scaleOf(calls: readonly ModelCall[]): number {
  const largest = Math.max(1, ...calls.map(({ tokens, tool_tokens }) => tokens + tool_tokens));
  const newest = calls.at(-1);
  const near = [newest?.threshold ?? 0, newest?.context_window ?? 0].filter(
    (tokens) => tokens <= largest * LIMIT_FACTOR_MAX,
  );
  return Math.max(largest, ...near) * 1.04;
}

function StripLink(props: {
  id: string;
  item: Item;
  isCurrent: boolean;
  isOpen: boolean;
  x: number;
  width: number;
  yOf: (tokens: number) => number;
  onFocus: () => void;
}): JSX.Element {
  const { id, item, isCurrent, isOpen, x, width, yOf, onFocus } = props;
  let below = 0;
  const link =
    item.kind === "call"
      ? linkTo(["sessions", id, "context", String(item.seq)])
      : linkTo(["sessions", id, "compactions", item.mark.compaction_id]);
  return (
    <a
      href={link}
      data-seq={item.seq}
      class={`strip-link ${isCurrent ? "current" : ""} ${isOpen ? "open" : ""}`}
      tabIndex={isCurrent ? 0 : -1}
      aria-label={describe(item)}
      onMouseEnter={onFocus}
      onFocus={onFocus}
      onKeyDown={(event) => {
        if (event.key === "Enter") navigate(link);
      }}
    >
      <rect class="strip-background" x={x} y={0} width={width} height={HEIGHT + 10} />
      {item.kind === "call" ? (
        partsOf(item.call).map(({ kind, tokens }) => {
          const y = yOf(below + tokens);
          const height = Math.max(0, yOf(below) - y);
          below += tokens;
          return (
            <rect key={kind} class={`part-${kind}`} x={x + 1} y={y} width={Math.max(2, width - 2)} height={height} />
          );
        })
      ) : (
        <g class={`strip-mark ${isEviction(item.mark) ? "eviction" : ""} ${item.mark.undone ? "undone" : ""}`}>
          <line x1={x + width / 2} x2={x + width / 2} y1={0} y2={HEIGHT} />
          <path d={`M${x + width / 2 - 4} ${HEIGHT + 9}l4 -8l4 8z`} />
        </g>
      )}
    </a>
  );
}

/** The tokens of a call by part, in the order of the bar. */
function partsOf(call: Pick<ModelCall, "parts" | "tool_tokens">): readonly { kind: Part; tokens: number }[] {
  return PARTS.map(([kind]) => {
    const own = call.parts.filter((part) => part.kind === kind).reduce((sum, { tokens }) => sum + tokens, 0);
    return { kind, tokens: kind === "tools" ? call.tool_tokens : own };
  }).filter(({ tokens }) => tokens > 0);
}

/** An eviction makes no summary: it shortens tool outputs to one line each. */
function isEviction({ trigger }: Mark): boolean {
  return trigger === "eviction";
}

function describe(item: Item): string {
  if (item.kind === "compaction") {
    const { tokens_before, tokens_after, undone } = item.mark;
    const change = `from ${formatCount(tokens_before)} to ${formatCount(tokens_after)} tokens`;
    return `${isEviction(item.mark) ? "Eviction" : "Compaction"} #${item.seq}: ${change}${undone ? ", undone" : ""}`;
  }
  const names = new Map<string, string>(PARTS);
  const parts = partsOf(item.call).map(({ kind, tokens }) => `${names.get(kind)} ${formatCount(tokens)}`);
  const total = formatCount(item.call.tokens + item.call.tool_tokens);
  return `Model call #${item.seq}, turn ${item.call.turn}: ${total} tokens: ${parts.join(", ")}`;
}

/** The figures of the focused bar, with a legend of its colours. */
function Caption(props: {
  item: Item | undefined;
  isSelected: boolean;
  limits: readonly (readonly [string, number | undefined])[];
  scale: number;
}): JSX.Element {
  const { item, isSelected, limits, scale } = props;
  if (item === undefined) return <p class="soft">No model calls yet. Each call appears here as a bar.</p>;
  if (item.kind === "compaction") {
    return <p class="strip-caption">{describe(item)}. Open it to see what was kept and lost.</p>;
  }
  const { call } = item;
  const sizes = new Map<Part, number>(partsOf(call).map(({ kind, tokens }) => [kind, tokens]));
  return (
    <>
      <p class="strip-caption">
        <strong>{isSelected ? `Call #${call.seq}` : "Latest call"}</strong>{" "}
        {formatCount(call.tokens + call.tool_tokens)} tokens in context
        <span class="soft">
          {" "}
          · turn {call.turn} · {formatTime(call.at)}
          {call.cost === undefined ? "" : ` · ${formatCost(call.cost)}`}
        </span>
      </p>
      <ul class="legend" aria-label="Parts">
        {PARTS.map(([kind, name]) => (
          <li key={kind} class={sizes.has(kind) ? "" : "none"}>
            <span class={`swatch part-${kind}`} aria-hidden="true" />
            {name} {formatTokens(sizes.get(kind) ?? 0)}
          </li>
        ))}
        {limits.map(([name, tokens]) =>
          tokens === undefined ? null : (
            <li key={name}>
              <span class={`swatch limit ${name}`} aria-hidden="true" />
              {name === "threshold" ? "compacts at" : "context window"} {formatTokens(tokens)}
              {tokens > scale ? " (off the chart)" : ""}
            </li>
          ),
        )}
        <li>
          <span class="swatch mark" aria-hidden="true" />
          compaction
        </li>
        <li>
          <span class="swatch mark eviction" aria-hidden="true" />
          eviction
        </li>
      </ul>
    </>
  );
}
