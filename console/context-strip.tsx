import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { ModelCalls } from "../src/contract/model-call.ts";
import { formatCost, formatCount, formatTime, formatTokens } from "./format.ts";
import { go, linkTo } from "./router.ts";

/** The parts of a context from the bottom of a bar to its top, and what they are called. */
const PARTS = [
  ["tools", "tools' descriptions"],
  ["system", "system prompt"],
  ["summary", "summary"],
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
/** A limit that lies this much higher than any bar would make all of them flat: it is told in words then. */
const FAR = 2.5;

type ModelCall = ModelCalls["calls"][number];
type Mark = ModelCalls["compactions"][number];
type Item =
  | { readonly kind: "call"; readonly seq: number; readonly call: ModelCall }
  | { readonly kind: "compaction"; readonly seq: number; readonly mark: Mark };

/** One stacked bar a model call, against the window and the threshold; compactions are marks between them. */
export function ContextStrip({ id, calls: read, at }: { id: string; calls: ModelCalls; at?: number }): JSX.Element {
  const { calls, compactions } = read;
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(600);
  const looked = useSignal<number | undefined>(undefined);
  useEffect(() => {
    if (box.current === null) return;
    const sizes = new ResizeObserver(([entry]) => {
      width.value = entry?.contentRect.width ?? width.value;
    });
    sizes.observe(box.current);
    return () => sizes.disconnect();
  }, []);
  // The newest is at the right, and one begins there.
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
    items.find(({ seq }) => seq === (looked.value ?? at)) ?? items.findLast(({ kind }) => kind === "call");
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
    looked.value = next.seq;
  };

  return (
    <figure class="strip">
      <div class="strip-box" ref={box}>
        <svg
          height={HEIGHT + 10}
          width={Math.max(width.value, step * items.length)}
          role="toolbar"
          aria-label="Size of the context at each model call; the arrow keys go from one to the next"
          onKeyDown={move}
          onMouseLeave={() => {
            looked.value = undefined;
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
              {...{ id, item, isCurrent: item === current, isOpen: item.seq === at }}
              x={index * step}
              width={step}
              yOf={yOf}
              onLook={() => {
                looked.value = item.seq;
              }}
            />
          ))}
        </svg>
      </div>
      <figcaption>
        <Told item={current} isAsked={looked.value !== undefined || at !== undefined} limits={limits} scale={scale} />
      </figcaption>
    </figure>
  );
}

/** As high as the largest context, or as a limit that is not far above it. */
function scaleOf(calls: readonly ModelCall[]): number {
  const largest = Math.max(1, ...calls.map(({ tokens, tool_tokens }) => tokens + tool_tokens));
  const newest = calls.at(-1);
  const near = [newest?.threshold ?? 0, newest?.context_window ?? 0].filter((tokens) => tokens <= largest * FAR);
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
  onLook: () => void;
}): JSX.Element {
  const { id, item, isCurrent, isOpen, x, width, yOf, onLook } = props;
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
      aria-label={sentenceOf(item)}
      onMouseEnter={onLook}
      onFocus={onLook}
      onKeyDown={(event) => {
        if (event.key === "Enter") go(link);
      }}
    >
      <rect class="strip-ground" x={x} y={0} width={width} height={HEIGHT + 10} />
      {item.kind === "call" ? (
        <Bar call={item.call} x={x + 1} width={Math.max(2, width - 2)} yOf={yOf} />
      ) : (
        <g class={`strip-mark ${isEviction(item.mark) ? "eviction" : ""} ${item.mark.undone ? "undone" : ""}`}>
          <line x1={x + width / 2} x2={x + width / 2} y1={0} y2={HEIGHT} />
          <path d={`M${x + width / 2 - 4} ${HEIGHT + 9}l4 -8l4 8z`} />
        </g>
      )}
    </a>
  );
}

function Bar(props: { call: ModelCall; x: number; width: number; yOf: (tokens: number) => number }): JSX.Element {
  const { call, x, width, yOf } = props;
  let below = 0;
  return (
    <>
      {partsOf(call).map(({ kind, tokens }) => {
        const y = yOf(below + tokens);
        const height = Math.max(0, yOf(below) - y);
        below += tokens;
        return <rect key={kind} class={`part-${kind}`} x={x} y={y} width={width} height={height} />;
      })}
    </>
  );
}

/** What a call was shown, by part, in the order of the bar. */
function partsOf(call: Pick<ModelCall, "parts" | "tool_tokens">): readonly { kind: Part; tokens: number }[] {
  return PARTS.map(([kind]) => {
    const own = call.parts.filter((part) => part.kind === kind).reduce((sum, { tokens }) => sum + tokens, 0);
    return { kind, tokens: kind === "tools" ? call.tool_tokens : own };
  }).filter(({ tokens }) => tokens > 0);
}

/** No summary was made: only tool output became one line each. */
function isEviction({ trigger }: Mark): boolean {
  return trigger === "eviction";
}

function sentenceOf(item: Item): string {
  if (item.kind === "compaction") {
    const { tokens_before, tokens_after, undone } = item.mark;
    const change = `${formatCount(tokens_before)} tokens became ${formatCount(tokens_after)}`;
    return `${isEviction(item.mark) ? "Eviction of tool output" : "Compaction"} at ${item.seq}: ${change}${undone ? "; it was undone" : ""}`;
  }
  const names = new Map<string, string>(PARTS);
  const parts = partsOf(item.call).map(({ kind, tokens }) => `${names.get(kind)} ${formatCount(tokens)}`);
  const all = formatCount(item.call.tokens + item.call.tool_tokens);
  return `Model call at ${item.seq}, turn ${item.call.turn}: ${all} tokens: ${parts.join(", ")}`;
}

/** The numbers of the bar that is looked at, with the names of its colours. */
function Told(props: {
  item: Item | undefined;
  isAsked: boolean;
  limits: readonly (readonly [string, number | undefined])[];
  scale: number;
}): JSX.Element {
  const { item, isAsked, limits, scale } = props;
  if (item === undefined)
    return <p class="soft">Nothing was asked of the model yet: each model call becomes a bar here.</p>;
  if (item.kind === "compaction") {
    return <p class="strip-told">{sentenceOf(item)}. Open it to see what was kept and lost.</p>;
  }
  const { call } = item;
  const sizes = new Map<Part, number>(partsOf(call).map(({ kind, tokens }) => [kind, tokens]));
  return (
    <>
      <p class="strip-told">
        <strong>{isAsked ? `Call #${call.seq}` : "Newest call"}</strong> {formatCount(call.tokens + call.tool_tokens)}{" "}
        tokens shown to the model
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
              {name === "threshold" ? "compacted at" : "window"} {formatTokens(tokens)}
              {tokens > scale ? " (above the picture)" : ""}
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
