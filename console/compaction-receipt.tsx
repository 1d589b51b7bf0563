import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { Compaction, Receipt as Received } from "../src/contract/compaction.ts";
import { formatCount } from "./format.ts";
import { linkTo } from "./router.ts";
import type { SessionView } from "./session-view.ts";

/** Where facts of what was taken out are now, from the safest to the worst. */
const CLASSES = [
  ["in_summary", "in the summary", "The summary says it."],
  ["in_tail", "in what stayed", "The turns that stayed say it too."],
  ["pinned", "pinned", "A pinned message says it."],
  ["recoverable", "only in the log", "The model is not shown it any more. It can be brought back."],
  ["lost", "lost", "It can be found nowhere any more."],
] as const;
export type FactClass = (typeof CLASSES)[number][0];

/** The receipt of a compaction as a bar: what became of the facts it took out. */
export function ReceiptBar({ receipt }: { receipt: Pick<Received, FactClass | "total"> }): JSX.Element {
  if (receipt.total === 0) return <p class="soft">What was taken out held no names, numbers, paths or rules.</p>;
  const told = CLASSES.filter(([name]) => receipt[name] > 0)
    .map(([name, words]) => `${formatCount(receipt[name])} ${words}`)
    .join(", ");
  return (
    <div class="receipt-bar" role="img" aria-label={`Of ${formatCount(receipt.total)} facts: ${told}`}>
      {CLASSES.map(([name, words]) => (
        <span
          key={name}
          class={`fact-${name}`}
          title={`${formatCount(receipt[name])} ${words}`}
          style={{ flexGrow: receipt[name] }}
        />
      ))}
    </div>
  );
}

const ITEMS_MAX = 200;

/** The facts of what was taken out by where they are now, what is worst off first. */
export function Receipt({ view, compaction }: { view: SessionView; compaction: Compaction }): JSX.Element {
  const { receipt } = compaction;
  // What is lost is to be seen without a click; the rest would hide the messages below.
  const chosen = useSignal<FactClass | undefined>(receipt.lost > 0 ? "lost" : undefined);
  const unverified = receipt.unverified ?? [];
  const items = receipt.items.filter(({ status }) => status === chosen.value);
  const meaning = CLASSES.find(([name]) => name === chosen.value)?.[2];
  return (
    <section class="card stack" aria-label="Receipt">
      <h2>What became of {formatCount(receipt.total)} facts: names, numbers, paths, rules</h2>
      <ReceiptBar receipt={receipt} />
      <div class="row">
        {CLASSES.map(([name, words]) => (
          <button
            key={name}
            type="button"
            class="fact-choice"
            aria-pressed={chosen.value === name}
            disabled={receipt[name] === 0}
            onClick={() => {
              chosen.value = chosen.value === name ? undefined : name;
            }}
          >
            <span class={`swatch fact-${name}`} aria-hidden="true" /> {formatCount(receipt[name])} {words}
          </button>
        ))}
        <span class="soft">
          {formatCount(unverified.length)} sentences not proved · {formatCount(receipt.invented.length)} invented
        </span>
      </div>
      {meaning !== undefined && (
        <p class="soft">
          {meaning}
          {chosen.value === "recoverable" &&
            ` A search of memory found ${formatCount(receipt.found_by_search)} of them before.`}
        </p>
      )}
      {items.length > 0 && (
        <ul class="fact-list">
          {items.slice(0, ITEMS_MAX).map(({ kind, text, seq }, index) => (
            <li key={index}>
              <span class="soft">{kind}</span> <bdi class="mono">{text}</bdi>{" "}
              <a
                class="source"
                href={linkTo(["sessions", view.id, "compactions", compaction.compaction_id], { seq })}
                aria-label={`said in message ${seq}`}
              >
                #{seq}
              </a>
            </li>
          ))}
          {items.length > ITEMS_MAX && <li class="soft">and {formatCount(items.length - ITEMS_MAX)} more</li>}
        </ul>
      )}
    </section>
  );
}
