import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { CompactResult } from "../../src/contract/compaction.ts";
import type { Economy } from "../../src/contract/money.ts";
import { ReceiptBar } from "../compaction-receipt.tsx";
import { ContextStrip } from "../context-strip.tsx";
import { formatCost, formatCount, formatTime, formatTokens } from "../format.ts";
import { Action, Badge, Empty, Note } from "../parts.tsx";
import { go, linkTo } from "../router.ts";
import { client, may } from "../server.ts";
import type { SessionView } from "../session-view.ts";

/** The compactions of a session, and one more by request. */
export function CompactionsScreen({ view }: { view: SessionView }): JSX.Element {
  const compactions = view.compactions.value;
  return (
    <div class="stack">
      <ContextStrip id={view.id} calls={view.calls.value} />
      {may("run") && view.info.value?.state !== "archived" && <CompactNow view={view} />}
      <section aria-label="Compactions">
        <h2>Compactions</h2>
        {compactions.length === 0 && (
          <Empty>
            Nothing was compacted yet: the model is shown every message. Once the context is too long, older messages
            are replaced by a summary, and you find here what it kept and what it lost.
          </Empty>
        )}
        <ul class="cards">
          {compactions.toReversed().map((one) => (
            <li key={one.compaction_id} class={`card ${one.undone ? "left" : ""}`}>
              <div class="row">
                <a href={linkTo(["sessions", view.id, "compactions", one.compaction_id])}>
                  {formatTime(one.created_at)}
                </a>
                <Badge>{TRIGGERS[one.trigger]}</Badge>
                {one.prepared !== undefined && <Badge>prepared</Badge>}
                {one.undone && <Badge tone="warn">undone</Badge>}
                {one.receipt.lost > 0 && <Badge tone="bad">{formatCount(one.receipt.lost)} lost</Badge>}
                <span class="grow" />
                <span class="soft">
                  {formatCount(one.messages_before)} → {formatCount(one.messages_after)} messages ·{" "}
                  {formatTokens(one.tokens_before)} → {formatTokens(one.tokens_after)} tokens
                  {one.usage.cost === undefined ? "" : ` · ${formatCost(one.usage.cost)}`}
                  {one.economy === undefined ? "" : ` · ${economyText(one.economy)}`}
                </span>
              </div>
              <ReceiptBar receipt={one.receipt} />
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}

export const TRIGGERS = {
  threshold: "the context had grown to its threshold",
  overflow: "the context no longer fitted the model",
  manual: "somebody asked for it",
  eviction: "tool output made room",
} as const;

interface Preview {
  readonly result: CompactResult;
  readonly instructions: string;
  readonly price: number | undefined;
}

/** What it would take out and cost is told before it is done. */
function CompactNow({ view }: { view: SessionView }): JSX.Element {
  const instructions = useSignal("");
  const preview = useSignal<Preview | undefined>(undefined);
  const given = (): { instructions?: string } =>
    instructions.value.trim() === "" ? {} : { instructions: instructions.value.trim() };
  const look = async (): Promise<void> => {
    const result = await view.handle.compact({ preview: true, ...given() });
    preview.value = { result, instructions: instructions.value, price: await priceOf(view, result) };
  };
  const compact = async (): Promise<void> => {
    const { compaction, reason } = await view.handle.compact(given());
    await view.refresh();
    preview.value = undefined;
    if (compaction !== undefined) go(linkTo(["sessions", view.id, "compactions", compaction.compaction_id]));
    else throw new Error(reason ?? "nothing was compacted");
  };
  return (
    <section class="card stack" aria-label="Compact now">
      <h2>Compact now</h2>
      <label>
        What the summary must not leave out (may stay empty)
        <textarea
          rows={2}
          value={instructions}
          placeholder="For example: keep every port and every file name"
          onInput={(event) => {
            instructions.value = event.currentTarget.value;
          }}
        />
      </label>
      {preview.value !== undefined && <Previewed preview={preview.value} />}
      <div class="row">
        <Action does={look}>{preview.value === undefined ? "See what it would do" : "Look again"}</Action>
        {preview.value?.result.compaction !== undefined && (
          <Action class="primary" does={compact}>
            Compact
          </Action>
        )}
        <span class="soft">It can be undone.</span>
      </div>
    </section>
  );
}

function Previewed({ preview }: { preview: Preview }): JSX.Element {
  const { result, price } = preview;
  const made = result.compaction;
  if (made === undefined) return <Note kind="plain">Nothing would be compacted: {result.reason}.</Note>;
  const { messages_before, messages_after, tokens_before, tokens_after, cost, receipt } = made;
  return (
    <div class="note asks" role="status">
      <p>
        It would take {formatCount(Math.max(0, messages_before - messages_after))} of {formatCount(messages_before)}{" "}
        messages out of the context: about {formatTokens(tokens_before)} tokens would become{" "}
        {formatTokens(tokens_after)}. {formatCount(receipt.total)} facts are in what would be taken out.
      </p>
      <p>
        {cost === undefined
          ? "It asks no model."
          : `The model would read ${formatTokens(cost.input_tokens)} tokens and write at most ${formatTokens(cost.max_output_tokens)}: `}
        {cost !== undefined &&
          (price === undefined ? "no price is known for it." : `at most ${formatCost({ amount: price })}.`)}
      </p>
      {made.economy !== undefined && <p>Whether it pays: {economyText(made.economy)}.</p>}
    </div>
  );
}

/** What a compaction saves and costs, and over how many calls. */
export function economyText({ saves, costs, calls }: Economy): string {
  return `saves ${formatCost({ amount: saves })} over ${formatCount(calls)} calls, costs ${formatCost({ amount: costs })}`;
}

const MILLION = 1_000_000;

/** The most it can cost, where the price of the model is known. */
async function priceOf(view: SessionView, { compaction }: CompactResult): Promise<number | undefined> {
  if (compaction?.cost === undefined) return undefined;
  const { providers } = await client().readModels();
  const model = providers.flatMap(({ models }) => models).find(({ id }) => id === compaction.model);
  if (model?.prices === undefined) return view.info.value?.provider === "offline" ? 0 : undefined;
  const { input_tokens, max_output_tokens } = compaction.cost;
  return (input_tokens * model.prices.input + max_output_tokens * model.prices.output) / MILLION;
}
