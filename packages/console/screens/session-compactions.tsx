import { useSignal } from "@preact/signals";
import type { CompactResult } from "@rkat/core/contract/compaction";
import type { Economy } from "@rkat/core/contract/money";
import type { JSX } from "preact";
import { ReceiptBar } from "../compaction-receipt.tsx";
import { formatCost, formatCount, formatTime, formatTokens } from "../format.ts";
import { Action, Badge, Empty, Note, textField } from "../parts.tsx";
import { linkTo, navigate } from "../router.ts";
import { call, hasScope } from "../server.ts";
import type { SessionView } from "../session-view.ts";
import { ContextStrip } from "./session-context.tsx";

/** The compactions of a session, and a form to compact it now. */
export function CompactionsScreen({ view }: { view: SessionView }): JSX.Element {
  const compactions = view.compactions.value;
  return (
    <div class="stack">
      <ContextStrip view={view} />
      {hasScope("run") && view.info.value?.state !== "archived" && <CompactNow view={view} />}
      <section aria-label="Compactions">
        <h2>Compactions</h2>
        {compactions.length === 0 && (
          <Empty>
            No compactions yet: the context has every message. When it becomes too long, a summary replaces older
            messages, and this page shows what the summary kept and lost.
          </Empty>
        )}
        <ul class="cards">
          {compactions.toReversed().map((one) => (
            <li key={one.compaction_id} class={`card ${one.undone ? "removed" : ""}`}>
              <div class="row">
                <a href={linkTo(["sessions", view.id, "compactions", one.compaction_id])}>
                  {formatTime(one.created_at)}
                </a>
                <Badge>{TRIGGERS[one.trigger]}</Badge>
                {one.prepared !== undefined && <Badge>prepared</Badge>}
                {one.undone && <Badge>undone</Badge>}
                {one.receipt.lost > 0 && <Badge tone="bad">{formatCount(one.receipt.lost)} lost</Badge>}
                <span class="grow" />
                <span class="soft">
                  {formatCount(one.messages_before)} → {formatCount(one.messages_after)} messages ·{" "}
                  {formatTokens(one.tokens_before)} → {formatTokens(one.tokens_after)} tokens
                  {one.usage.cost === undefined ? "" : ` · ${formatCost(one.usage.cost)}`}
                  {one.economy === undefined ? "" : ` · ${economyText(one.economy)}`}
                </span>
              </div>
              <p>{one.receipt.verdict}</p>
              <ReceiptBar receipt={one.receipt} />
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}

export const TRIGGERS = {
  threshold: "Context reached the threshold",
  overflow: "Context no longer fit the model",
  manual: "Requested manually",
  eviction: "Old tool output was trimmed",
} as const;

interface Preview {
  readonly result: CompactResult;
  readonly instructions: string;
  readonly price: number | undefined;
}

/** Shows the effect and the cost before it compacts. */
function CompactNow({ view }: { view: SessionView }): JSX.Element {
  const instructions = useSignal("");
  const preview = useSignal<Preview | undefined>(undefined);
  const options = (): { instructions?: string } =>
    instructions.value.trim() === "" ? {} : { instructions: instructions.value.trim() };
  const loadPreview = async (): Promise<void> => {
    const result = await call("compactSession", { session_id: view.id, preview: true, ...options() });
    preview.value = { result, instructions: instructions.value, price: await priceOf(view, result) };
  };
  const compact = async (): Promise<void> => {
    const { compaction, reason } = await call("compactSession", { session_id: view.id, ...options() });
    await view.refresh();
    preview.value = undefined;
    if (compaction !== undefined) navigate(linkTo(["sessions", view.id, "compactions", compaction.compaction_id]));
    else throw new Error(reason ?? "nothing was compacted");
  };
  return (
    <section class="card stack" aria-label="Compact now">
      <h2>Compact now</h2>
      <label>
        What the summary must include (optional)
        <textarea rows={2} placeholder="For example: every port and every file name" {...textField(instructions)} />
      </label>
      {preview.value !== undefined && <PreviewText preview={preview.value} />}
      <div class="row">
        <Action run={loadPreview}>{preview.value === undefined ? "Preview" : "Preview again"}</Action>
        {preview.value?.result.compaction !== undefined && (
          <Action class="primary" run={compact}>
            Compact
          </Action>
        )}
        <span class="soft">A compaction can be undone.</span>
      </div>
    </section>
  );
}

function PreviewText({ preview }: { preview: Preview }): JSX.Element {
  const { result, price } = preview;
  const planned = result.compaction;
  if (planned === undefined) return <Note kind="plain">Nothing to compact: {result.reason}.</Note>;
  const { messages_before, messages_after, tokens_before, tokens_after, cost, receipt } = planned;
  return (
    <div class="note confirm" role="status">
      <p>
        This would remove {formatCount(Math.max(0, messages_before - messages_after))} of {formatCount(messages_before)}{" "}
        messages, with {formatCount(receipt.total)} facts, and shorten the context from about{" "}
        {formatTokens(tokens_before)} to {formatTokens(tokens_after)} tokens.
      </p>
      <p>
        {cost === undefined
          ? "No model would be called."
          : `The model would read ${formatTokens(cost.input_tokens)} tokens and write at most ${formatTokens(cost.max_output_tokens)}: `}
        {cost !== undefined &&
          (price === undefined ? "its price is unknown." : `at most ${formatCost({ amount: price })}.`)}
      </p>
      {planned.economy !== undefined && <p>Estimate: {economyText(planned.economy)}.</p>}
    </div>
  );
}

export function economyText({ saves, costs, calls }: Economy): string {
  return `saves ${formatCost({ amount: saves })} over ${formatCount(calls)} calls, costs ${formatCost({ amount: costs })}`;
}

const MILLION = 1_000_000;

/** The maximum cost; undefined if the price of the model is unknown. */
async function priceOf(view: SessionView, { compaction }: CompactResult): Promise<number | undefined> {
  if (compaction?.cost === undefined) return undefined;
  const { providers } = await call("readModels", {});
  const model = providers.flatMap(({ models }) => models).find(({ id }) => id === compaction.model);
  if (model?.prices === undefined) return view.info.value?.provider === "offline" ? 0 : undefined;
  const { input_tokens, max_output_tokens } = compaction.cost;
  return (input_tokens * model.prices.input + max_output_tokens * model.prices.output) / MILLION;
}
