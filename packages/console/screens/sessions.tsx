import { useSignal } from "@preact/signals";
import type { SessionSummary } from "@rkat/core/contract/session-info";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { formatAgo, formatCost, formatCount, formatTime, formatTokens } from "../format.ts";
import { Action, Badge, Empty, Loaded, Table, type Tone, useRequest } from "../parts.tsx";
import { linkTo, replaceRoute, route } from "../router.ts";
import { call, client, handleError, hasScope } from "../server.ts";
import { parentageOf } from "../sub-agents.ts";

/** The number of sessions per page, and of the newest ones that are polled. */
const PAGE = 100;
/** A search covers this many of the newest sessions. */
const SEARCHED_MAX = 2_000;
const POLL_MS = 5_000;

export const TONES: Readonly<Record<string, Tone>> = {
  running: "live",
  waiting: "warn",
  interrupted: "bad",
  failed: "bad",
  archived: "plain",
};

export function SessionsScreen(): JSX.Element {
  const { query } = route.value;
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const label = query.get("label") ?? undefined;
  const shown = useSignal(PAGE);
  const hidesChildren = query.get("sub-agents") === "hidden";
  const limit = words.length > 0 || hidesChildren ? SEARCHED_MAX : shown.value;
  const newest = useSignal<readonly SessionSummary[]>([]);
  const list = async (max: number) =>
    (await call("listSessions", { limit: max, ...(label === undefined ? {} : labelsOf(label)) })).sessions;
  // One extra session tells whether there are more.
  const request = useRequest(() => list(limit + 1), [label, limit]);
  useEffect(() => {
    newest.value = [];
  }, [request.value]);
  useEffect(() => {
    let isCurrent = true;
    const poll = async (): Promise<void> => {
      if (document.visibilityState !== "visible") return;
      // After an error the list stays as it is until the next poll.
      const polled = await list(PAGE).catch((thrown: unknown) => void handleError(thrown));
      if (isCurrent && polled !== undefined) newest.value = polled;
    };
    const timer = setInterval(() => void poll(), POLL_MS);
    return () => {
      isCurrent = false;
      clearInterval(timer);
    };
  }, [label]);
  const filter = (by: { readonly q?: string; readonly hides?: boolean }): void => {
    const { q = query.get("q") ?? "", hides = hidesChildren } = by;
    const hidden = hides ? "hidden" : undefined;
    replaceRoute(linkTo(["sessions"], { q: q === "" ? undefined : q, label, "sub-agents": hidden }));
  };
  return (
    <div class="stack">
      <div class="row">
        <h1>Sessions</h1>
        {label !== undefined && (
          <a class="badge" href={linkTo(["sessions"], { q: query.get("q") ?? undefined })} title="Show all sessions">
            <bdi>{label}</bdi> ✕
          </a>
        )}
        <span class="grow" />
        <input
          type="search"
          aria-label="Search by title, id, model or label"
          placeholder="Search: title, id, model, label"
          value={query.get("q") ?? ""}
          onInput={(event) => filter({ q: event.currentTarget.value })}
        />
        <label class="choice">
          <input
            type="checkbox"
            checked={hidesChildren}
            onChange={(event) => filter({ hides: event.currentTarget.checked })}
          />
          Hide sub-agents
        </label>
        {hasScope("run") && (
          <a class="button primary" href={linkTo(["sessions", "new"])}>
            New session
          </a>
        )}
      </div>
      <Loaded request={request}>
        {(sessions) => {
          const known = merge(newest.value, sessions);
          const found = known
            .filter((session) => words.every((word) => searchText(session).includes(word)))
            .filter(({ labels }) => !hidesChildren || parentageOf(labels) === undefined);
          if (found.length === 0) return known.length === 0 && label === undefined ? <NoSessions /> : <NoMatches />;
          const listed = found.slice(0, shown.value);
          return (
            <>
              <Table columns={hasScope("run") ? [...COLUMNS, ["Actions", "wide"]] : COLUMNS}>
                {listed.map((session) => (
                  <Row key={session.session_id} session={session} reload={request.repeat} />
                ))}
              </Table>
              {found.length > listed.length && (
                <p class="row">
                  <button
                    type="button"
                    onClick={() => {
                      shown.value += PAGE;
                    }}
                  >
                    Show more
                  </button>
                  <span class="soft">Showing the newest {formatCount(listed.length)}.</span>
                </p>
              )}
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

function NoSessions(): JSX.Element {
  return (
    <div class="card">
      <h2>No sessions yet</h2>
      <p>{hasScope("run") ? "Select New session, or run" : "Run"} this in the project folder:</p>
      <pre>rkat run "What can you do?"</pre>
    </div>
  );
}

function NoMatches(): JSX.Element {
  return (
    <Empty>
      No matching sessions. <a href={linkTo(["sessions"])}>Show all</a>
    </Empty>
  );
}

const COLUMNS = [
  ["Session"],
  ["State"],
  ["Model", "wide"],
  ["Messages", "number wide"],
  ["Tokens", "number wide"],
  ["Cost", "number"],
  ["Updated", "wide"],
] as const;

/** The labels that the mark of a sub-agent's session already shows. */
const SUB_AGENT_LABELS: ReadonlySet<string> = new Set(["parent", "parent_call", "agent"]);

function Row({ session, reload }: { session: SessionSummary; reload: () => void }): JSX.Element {
  const archive = async (): Promise<void> => {
    await client().session(session.session_id).archive();
    reload();
  };
  const parentage = parentageOf(session.labels);
  const labels = Object.entries(session.labels ?? {}).filter(
    ([key]) => parentage === undefined || !SUB_AGENT_LABELS.has(key),
  );
  return (
    <tr>
      <td class="title">
        {parentage !== undefined && (
          <a
            class="badge"
            href={linkTo(["sessions", parentage.parent])}
            title={`Sub-agent of session ${parentage.parent}`}
          >
            ↳ <bdi>{parentage.agent}</bdi>
          </a>
        )}{" "}
        <a href={linkTo(["sessions", session.session_id])}>
          <bdi>{session.title || "(no messages yet)"}</bdi>
        </a>{" "}
        <span class="labels">
          {labels.map(([key, value]) => (
            <a key={key} class="badge" href={linkTo(["sessions"], { label: `${key}=${value}` })}>
              <bdi>
                {key}={value}
              </bdi>
            </a>
          ))}
        </span>
      </td>
      <td>
        <Badge tone={TONES[session.state] ?? "plain"}>{session.state}</Badge>
      </td>
      <td class="wide">
        <bdi>{session.model}</bdi>
      </td>
      <td class="number wide">{formatCount(session.message_count)}</td>
      <td class="number wide">{formatTokens(session.total_tokens)}</td>
      <td class="number">{formatCost(session.cost)}</td>
      <td class="wide when" title={formatTime(session.updated_at)}>
        {formatAgo(session.updated_at)}
      </td>
      {hasScope("run") && (
        <td class="wide">
          {session.state !== "archived" && (
            <Action class="quiet" run={archive} label={`Archive ${session.title}`}>
              Archive
            </Action>
          )}
        </td>
      )}
    </tr>
  );
}

/** Replaces the newest sessions of a loaded list by the polled ones. */
function merge(newest: readonly SessionSummary[], loaded: readonly SessionSummary[]): readonly SessionSummary[] {
  const oldest = newest.at(-1);
  if (oldest === undefined) return loaded;
  if (newest.length < PAGE) return newest;
  const seen = new Set(newest.map(({ session_id }) => session_id));
  const isOlder = (one: SessionSummary): boolean => one.updated_at <= oldest.updated_at && !seen.has(one.session_id);
  return [...newest, ...loaded.filter(isOlder)];
}

export function labelsOf(label: string): { labels: Record<string, string> } {
  const [key = "", ...value] = label.split("=");
  return { labels: { [key]: value.join("=") } };
}

function searchText({ title, session_id, model, state, labels = {} }: SessionSummary): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return [title, session_id, model, state, ...pairs].join(" ").toLowerCase();
}
