import { useSignal } from "@preact/signals";
import type { AgentContext, AgentHistory, AgentStatus } from "@rkat/core/contract/agent";
import type { JSX } from "preact";
import { ReceiptBar } from "../compaction-receipt.tsx";
import { formatCount, formatTime } from "../format.ts";
import { Action, Badge, Empty, Facts, Loaded, Note, Table, textField, useRequest } from "../parts.tsx";
import { linkTo, replaceRoute, route } from "../router.ts";
import { call, client, hasScope } from "../server.ts";
import { Hits } from "./memory.tsx";

type PastSummary = AgentHistory["summaries"][number];

export function AgentsScreen({ path }: { path: readonly string[] }): JSX.Element {
  const [name] = path;
  return name === undefined ? <AgentList /> : <Agent key={name} name={name} />;
}

function AgentList(): JSX.Element {
  const request = useRequest(() => call("listAgents", {}), []);
  return (
    <div class="stack">
      <h1>Agents</h1>
      <Loaded request={request}>
        {({ agents }) =>
          agents.length === 0 ? (
            <Empty>
              No agents yet. An agent is created with its first memory:{" "}
              <code>rkat agent remember ada "The port is 7443."</code>
            </Empty>
          ) : (
            <Table columns={[["Agent"], ["Memories", "number"], ["First memory", "wide"], ["Last memory"]]}>
              {agents.map(({ agent, count, created_at, updated_at }) => (
                <tr key={agent}>
                  <td class="title">
                    <a href={linkTo(["agents", agent])}>
                      <bdi>{agent}</bdi>
                    </a>
                  </td>
                  <td class="number">{formatCount(count)}</td>
                  <td class="wide">{formatTime(created_at)}</td>
                  <td>{formatTime(updated_at)}</td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
    </div>
  );
}

/** One agent: its status and the three tiers of its memory. */
function Agent({ name }: { name: string }): JSX.Element {
  const request = useRequest(async () => {
    const agent = { agent: name };
    const [status, context] = await Promise.all([call("readAgentStatus", agent), call("readAgentContext", agent)]);
    return { status, context };
  }, []);
  return (
    <div class="stack">
      <div class="row">
        <h1>
          <bdi>{name}</bdi>
        </h1>
        <span class="grow" />
        <a href={linkTo(["agents"])}>All agents</a>
      </div>
      <Loaded request={request}>
        {({ status, context }) => (
          <>
            <Status status={status} reload={request.repeat} name={name} />
            <Tiers status={status} context={context} />
            <Recall name={name} />
            <PastSummaries key={status.compactions} name={name} />
            {hasScope("run") && <Additions name={name} reload={request.repeat} />}
            <details class="card">
              <summary>Full text shown to the model</summary>
              <pre class="text">{context.prompt}</pre>
            </details>
          </>
        )}
      </Loaded>
    </div>
  );
}

function Status({ status, name, reload }: { status: AgentStatus; name: string; reload: () => void }): JSX.Element {
  const { count, notes, compactions, next_compaction_at, compaction_due, compaction_running, last_error } = status;
  const left = next_compaction_at - count;
  const compact = async (): Promise<void> => {
    const { compacted, reason } = await client().agent(name).compact();
    reload();
    if (!compacted) throw new Error(reason ?? "there was nothing to compact");
  };
  return (
    <section class="card stack" aria-label="Status">
      <Facts
        rows={[
          ["Memories", formatCount(count)],
          ["Private notes", formatCount(notes)],
          ["Compactions", formatCount(compactions)],
          [
            "Last compaction",
            status.last_compaction_at === undefined ? "none yet" : formatTime(status.last_compaction_at),
          ],
          ["Next compaction", left > 0 ? `at memory ${formatCount(next_compaction_at)}, ${left} to go` : "due now"],
        ]}
      />
      <TierBar status={status} />
      {last_error !== undefined && <Note kind="bad">The last compaction failed: {last_error}</Note>}
      <div class="row">
        {compaction_running && <Badge tone="live">compacting</Badge>}
        {compaction_due && !compaction_running && <Badge tone="warn">compaction due</Badge>}
        {hasScope("run") && <Action run={compact}>Compact now</Action>}
      </div>
    </section>
  );
}

/** All memories from the first to the last, coloured by the tier that covers them. */
function TierBar({ status }: { status: AgentStatus }): JSX.Element {
  const { count, longterm_range: old, recent_range: recent } = status;
  const covered = Math.max(old?.to_seq ?? 0, recent?.to_seq ?? 0);
  const parts = [
    { tier: "longterm", name: TIERS.longterm, from: old?.from_seq, to: old?.to_seq },
    { tier: "recent", name: TIERS.recent, from: recent?.from_seq, to: recent?.to_seq },
    { tier: "immediate", name: "immediate", from: covered < count ? covered + 1 : undefined, to: count },
  ].flatMap(({ tier, name, from, to }) => (from === undefined || to === undefined ? [] : [{ tier, name, from, to }]));
  const label = parts.map(({ name, from, to }) => `${name} ${from} to ${to}`).join(", ");
  return (
    <div class="tier-bar" role="img" aria-label={label === "" ? "No memories" : `Memories by tier: ${label}`}>
      {parts.map(({ tier, name, from, to }) => (
        <span
          key={tier}
          class={`tier ${tier}`}
          title={`${name}: memories ${from} to ${to}`}
          style={{ width: `${(100 * (to - from + 1)) / Math.max(1, count)}%` }}
        />
      ))}
    </div>
  );
}

function Tiers({ status, context }: { status: AgentStatus; context: AgentContext }): JSX.Element {
  const { recent_range, longterm_range, immediate_window, recent_window } = status;
  return (
    <div class="tiers">
      <section class="card tier immediate" aria-labelledby="tier-immediate">
        <h2 id="tier-immediate">Immediate</h2>
        <p class="soft">
          Full text of at least the newest {formatCount(immediate_window)} memories.{" "}
          {rangeText(immediateRange(context))}
        </p>
        {context.immediate.length === 0 ? (
          <Empty>No memories yet.</Empty>
        ) : (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
          <ol class="memories" tabIndex={0} aria-label="Newest memories">
            {context.immediate.toReversed().map(({ seq, content, created_at, metadata }) => (
              <li key={seq}>
                <span class="soft">
                  {formatCount(seq)} · {formatTime(created_at)}
                </span>
                <div class="text">{content}</div>
                {metadata !== undefined && <code class="soft text">{JSON.stringify(metadata)}</code>}
              </li>
            ))}
          </ol>
        )}
      </section>
      <section class="card tier recent" aria-labelledby="tier-recent">
        <h2 id="tier-recent">Recent</h2>
        <p class="soft">
          A summary of the {formatCount(recent_window)} memories before. {rangeText(recent_range)}
        </p>
        <Summary text={context.recent_summary} />
      </section>
      <section class="card tier longterm" aria-labelledby="tier-longterm">
        <h2 id="tier-longterm">Long-term</h2>
        <p class="soft">A summary of all older memories. {rangeText(longterm_range)}</p>
        <Summary text={context.longterm_summary} />
      </section>
    </div>
  );
}

function Summary({ text }: { text: string | undefined }): JSX.Element {
  if (text === undefined) return <Empty>No summary yet.</Empty>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
    <div class="text long" tabIndex={0}>
      {text}
    </div>
  );
}

type Range = AgentStatus["recent_range"];

function immediateRange({ immediate }: AgentContext): Range {
  const [first, last] = [immediate[0], immediate.at(-1)];
  return first === undefined || last === undefined ? undefined : { from_seq: first.seq, to_seq: last.seq };
}

function rangeText(range: Range): string {
  return range === undefined ? "" : `Memories ${formatCount(range.from_seq)} to ${formatCount(range.to_seq)}.`;
}

const TIERS = { recent: "recent", longterm: "long-term" } as const;

/** Every summary the agent ever had, to see what a later one lost. */
function PastSummaries({ name }: { name: string }): JSX.Element {
  const before = useSignal<number | undefined>(undefined);
  const loaded = useSignal<readonly PastSummary[]>([]);
  const request = useRequest(async () => {
    const { summaries, next_before_seq } = await call("readAgentHistory", { agent: name, before_seq: before.value });
    loaded.value = [...loaded.value, ...summaries];
    return { next: next_before_seq };
  }, [before.value]);
  return (
    <section class="card stack" aria-labelledby="past">
      <h2 id="past">Summary history</h2>
      <Loaded request={request}>
        {({ next }) => (
          <>
            {loaded.value.length === 0 && <Empty>No summaries yet.</Empty>}
            {loaded.value.map((past) => (
              <details key={`${past.seq} ${past.tier}`}>
                <summary>
                  {formatTime(past.created_at)} · {TIERS[past.tier]} · memories {formatCount(past.from)} to{" "}
                  {formatCount(past.to)}
                  {past.quality !== undefined && ` · quality ${past.quality.quality}`}
                  {past.remaking?.outcome === "remade" && " · rewritten"}
                </summary>
                <pre class="text">{past.summary}</pre>
                <SummaryReceipt past={past} />
              </details>
            ))}
            {next !== undefined && (
              <div>
                <button
                  type="button"
                  onClick={() => {
                    before.value = next;
                  }}
                >
                  Show older
                </button>
              </div>
            )}
          </>
        )}
      </Loaded>
    </section>
  );
}

/** Where the facts of the summarised memories are now, and the quality of a long-term summary. */
function SummaryReceipt({ past }: { past: PastSummary }): JSX.Element {
  const { receipt, quality, remaking } = past;
  if (receipt === undefined) return <p class="soft">No receipt: this summary is older than receipts.</p>;
  const { total, in_summary, in_tail, recoverable, lost, verdict } = receipt;
  return (
    <div class="stack">
      <ReceiptBar receipt={{ ...receipt, pinned: 0 }} />
      <p>{verdict}</p>
      <p class="soft">
        {formatCount(total)} facts: {formatCount(in_summary + in_tail)} in view ({formatCount(in_summary)} in this
        summary), {formatCount(recoverable)} recoverable, {formatCount(lost)} lost
      </p>
      {quality !== undefined && (
        <p class="soft">
          Quality {quality.quality}: contains {formatCount(quality.kept)} of the {formatCount(quality.sources)} facts in
          its sources; {formatCount(quality.attainable)} would fit.
        </p>
      )}
      {remaking !== undefined && (
        <p class="soft">
          {REMAKINGS[remaking.outcome]} It was compared with {formatCount(remaking.summaries)} earlier recent summaries.
          {remaking.reason !== undefined && ` ${remaking.reason}`}
        </p>
      )}
    </div>
  );
}

const REMAKINGS = {
  remade: "Rewritten: the new summary contains more facts.",
  not_needed: "Not rewritten: it contains all the facts that fit.",
  not_better: "Not replaced: a rewritten summary would contain no more facts.",
  failed: "Rewriting failed.",
} as const;

function Recall({ name }: { name: string }): JSX.Element {
  const q = (route.value.query.get("q") ?? "").trim();
  const words = useSignal(q);
  const submit = (event: Event): void => {
    event.preventDefault();
    replaceRoute(linkTo(["agents", name], { q: words.value.trim() || undefined }));
  };
  return (
    <section class="card stack" aria-labelledby="recall">
      <h2 id="recall">Recall</h2>
      <form class="search" onSubmit={submit}>
        <label class="grow">
          Search this agent's memories
          <input type="search" {...textField(words)} />
        </label>
        <button type="submit">Recall</button>
      </form>
      {q !== "" && <RecallResults key={q} name={name} q={q} />}
    </section>
  );
}

function RecallResults({ name, q }: { name: string; q: string }): JSX.Element {
  const request = useRequest(() => call("searchHistory", { query: q, agent: name, explain: true }), []);
  return (
    <Loaded request={request}>
      {({ results }) =>
        results.length === 0 ? <Empty>No matching memories.</Empty> : <Hits hits={results} query={q} />
      }
    </Loaded>
  );
}

function Additions({ name, reload }: { name: string; reload: () => void }): JSX.Element {
  const agent = client().agent(name);
  return (
    <div class="two">
      <Addition
        title="Add memory"
        label="A memory for this agent"
        add={(text) => agent.remember(text)}
        reload={reload}
      />
      <Addition
        title="Add note"
        label="A private note, shown to the agent when it is relevant"
        add={(text) => agent.note(text)}
        reload={reload}
      />
    </div>
  );
}

function Addition(props: {
  title: string;
  label: string;
  add: (text: string) => Promise<unknown>;
  reload: () => void;
}): JSX.Element {
  const text = useSignal("");
  const add = async (): Promise<void> => {
    await props.add(text.value);
    text.value = "";
    props.reload();
  };
  return (
    <section class="card stack">
      <h2>{props.title}</h2>
      <label>
        {props.label}
        <textarea rows={3} {...textField(text)} />
      </label>
      <Action run={add} disabled={text.value.trim() === ""}>
        {props.title}
      </Action>
    </section>
  );
}
