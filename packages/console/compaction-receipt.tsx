import { useSignal } from "@preact/signals";
import type { Compaction, Receipt as Received } from "@rkat/core/contract/compaction";
import type { JSX } from "preact";
import { formatCount } from "./format.ts";
import { linkTo } from "./router.ts";
import type { SessionView } from "./session-view.ts";

/** Where the facts of removed messages are now, from the best case to the worst. */
const CLASSES = [
  ["in_view", "in view", "The model still sees it: in the summary, or in a message that stayed."],
  ["recoverable", "recoverable", "It is no longer shown to the model. A search or an expansion finds it again."],
  ["lost", "lost", "It is no longer stored anywhere."],
] as const;
type FactClass = (typeof CLASSES)[number][0];
type Counts = Pick<Received, "total" | "in_summary" | "in_tail" | "pinned" | "recoverable" | "lost">;

export function classOf(status: Received["items"][number]["status"]): FactClass {
  return status === "recoverable" || status === "lost" ? status : "in_view";
}

function countsOf({ in_summary, in_tail, pinned, recoverable, lost }: Counts): Readonly<Record<FactClass, number>> {
  return { in_view: in_summary + in_tail + pinned, recoverable, lost };
}

export function ReceiptBar({ receipt }: { receipt: Counts }): JSX.Element {
  if (receipt.total === 0) return <p class="soft">The removed messages contain no names, numbers, paths or rules.</p>;
  const counts = countsOf(receipt);
  const label = CLASSES.filter(([name]) => counts[name] > 0)
    .map(([name, title]) => `${formatCount(counts[name])} ${title}`)
    .join(", ");
  return (
    <div class="receipt-bar" role="img" aria-label={`Of ${formatCount(receipt.total)} facts: ${label}`}>
      {CLASSES.map(([name, title]) => (
        <span
          key={name}
          class={`fact-${name}`}
          title={`${formatCount(counts[name])} ${title}`}
          style={{ flexGrow: counts[name] }}
        />
      ))}
    </div>
  );
}

const ITEMS_MAX = 200;

/** The facts of the removed messages, listed by where they are now. */
export function Receipt({ view, compaction }: { view: SessionView; compaction: Compaction }): JSX.Element {
  const { receipt } = compaction;
  // Lost facts are listed at once; a longer list would push the messages down.
  const chosen = useSignal<FactClass | undefined>(receipt.lost > 0 ? "lost" : undefined);
  const counts = countsOf(receipt);
  const items = receipt.items.filter(({ status }) => classOf(status) === chosen.value);
  return (
    <section class="card stack" aria-label="Receipt">
      <h2>{receipt.verdict}</h2>
      <p class="soft">{formatCount(receipt.total)} facts in the removed messages: names, numbers, paths, rules</p>
      <ReceiptBar receipt={receipt} />
      <div class="row">
        {CLASSES.map(([name, title]) => (
          <button
            key={name}
            type="button"
            class="fact-choice"
            aria-pressed={chosen.value === name}
            disabled={counts[name] === 0}
            onClick={() => {
              chosen.value = chosen.value === name ? undefined : name;
            }}
          >
            <span class={`swatch fact-${name}`} aria-hidden="true" /> {formatCount(counts[name])} {title}
          </button>
        ))}
      </div>
      <dl class="fact-legend soft">
        {CLASSES.map(([name, title, meaning]) => (
          <div key={name}>
            <dt>
              <span class={`swatch fact-${name}`} aria-hidden="true" /> {title}
            </dt>
            <dd>
              {meaning}
              {name === "recoverable" && ` A memory search found ${formatCount(receipt.found_by_search)} of them.`}
            </dd>
          </div>
        ))}
      </dl>
      {items.length > 0 && (
        <ul class="fact-list">
          {items.slice(0, ITEMS_MAX).map(({ kind, text, seq }, index) => (
            <li key={index}>
              <span class="soft">{kind}</span> <bdi class="mono">{text}</bdi>{" "}
              <a
                class="source"
                href={linkTo(["sessions", view.id, "compactions", compaction.compaction_id], { seq })}
                aria-label={`from message ${seq}`}
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
