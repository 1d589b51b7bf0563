import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { SessionSummary } from "../../src/contract/session-info.ts";
import { formatAgo, formatCost, formatCount, formatTime, formatTokens } from "../format.ts";
import { Action, Answer, Badge, Empty, type Tone, useAsked } from "../parts.tsx";
import { go, linkTo, place, replace } from "../router.ts";
import { client, failed, may } from "../server.ts";
import { parentageOf } from "../sub-agents.ts";

/** So many are asked for at once, and looked at again as time goes on. */
const PAGE = 100;
/** Who searches looks through so many of the newest. */
const SEARCHED_MAX = 2_000;
const LOOK_MS = 5_000;

export const TONES: Readonly<Record<string, Tone>> = {
  running: "live",
  waiting: "warn",
  interrupted: "bad",
  failed: "bad",
  archived: "plain",
};

export function SessionsScreen(): JSX.Element {
  const { query } = place.value;
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const label = query.get("label") ?? undefined;
  const shown = useSignal(PAGE);
  const hidesChildren = query.get("sub-agents") === "hidden";
  const wanted = words.length > 0 || hidesChildren ? SEARCHED_MAX : shown.value;
  const newest = useSignal<readonly SessionSummary[]>([]);
  const ask = (limit: number) => client().listSessions({ limit, ...(label === undefined ? {} : labelsOf(label)) });
  // One more than is shown says whether there are more.
  const asked = useAsked(() => ask(wanted + 1), [label, wanted]);
  useEffect(() => {
    newest.value = [];
  }, [asked.value]);
  useEffect(() => {
    let isCurrent = true;
    const look = async (): Promise<void> => {
      if (document.visibilityState !== "visible") return;
      // What cannot be asked now is asked again soon, and what was there stays to be read.
      const seen = await ask(PAGE).catch((thrown: unknown) => void failed(thrown));
      if (isCurrent && seen !== undefined) newest.value = seen;
    };
    const timer = setInterval(() => void look(), LOOK_MS);
    return () => {
      isCurrent = false;
      clearInterval(timer);
    };
  }, [label]);
  const narrow = (at: { readonly q?: string; readonly hides?: boolean }): void => {
    const { q = query.get("q") ?? "", hides = hidesChildren } = at;
    const hidden = hides ? "hidden" : undefined;
    replace(linkTo(["sessions"], { q: q === "" ? undefined : q, label, "sub-agents": hidden }));
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
          onInput={(event) => narrow({ q: event.currentTarget.value })}
        />
        <label class="choice">
          <input
            type="checkbox"
            checked={hidesChildren}
            onChange={(event) => narrow({ hides: event.currentTarget.checked })}
          />
          Hide sub-agents
        </label>
        {may("run") && (
          <Action class="primary" does={createSession}>
            New session
          </Action>
        )}
      </div>
      <Answer asked={asked}>
        {(sessions) => {
          const known = joined(newest.value, sessions);
          const found = known
            .filter((session) => words.every((word) => wordsOf(session).includes(word)))
            .filter(({ labels }) => !hidesChildren || parentageOf(labels) === undefined);
          if (found.length === 0) return known.length === 0 && label === undefined ? <Beginning /> : <NoneFits />;
          const listed = found.slice(0, shown.value);
          return (
            <>
              <Table sessions={listed} again={asked.again} />
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
                  <span class="soft">The newest {formatCount(listed.length)} are shown.</span>
                </p>
              )}
            </>
          );
        }}
      </Answer>
    </div>
  );
}

/** Where nobody has said anything yet. */
function Beginning(): JSX.Element {
  return (
    <div class="card">
      <h2>No sessions yet</h2>
      <p>
        {may("run") ? "Begin one with New session, or in the project's folder:" : "Begin one in the project's folder:"}
      </p>
      <pre>rkat run "What can you do?"</pre>
    </div>
  );
}

function NoneFits(): JSX.Element {
  return (
    <Empty>
      No session fits the search. <a href={linkTo(["sessions"])}>Show all</a>
    </Empty>
  );
}

function Table({ sessions, again }: { sessions: readonly SessionSummary[]; again: () => void }): JSX.Element {
  return (
    <div class="scroll-x">
      <table>
        <thead>
          <tr>
            <th>Session</th>
            <th>State</th>
            <th class="wide">Model</th>
            <th class="number wide">Messages</th>
            <th class="number wide">Tokens</th>
            <th class="number">Cost</th>
            <th class="wide">Updated</th>
            {may("run") && <th class="wide">Actions</th>}
          </tr>
        </thead>
        <tbody>
          {sessions.map((session) => (
            <Row key={session.session_id} session={session} again={again} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What the mark of a sub-agent's session says already. */
const OF_CHILDREN: ReadonlySet<string> = new Set(["parent", "parent_call", "agent"]);

function Row({ session, again }: { session: SessionSummary; again: () => void }): JSX.Element {
  const archive = async (): Promise<void> => {
    await client().session(session.session_id).archive();
    again();
  };
  const parentage = parentageOf(session.labels);
  const labels = Object.entries(session.labels ?? {}).filter(
    ([key]) => parentage === undefined || !OF_CHILDREN.has(key),
  );
  return (
    <tr>
      <td class="title">
        {parentage !== undefined && (
          <a
            class="badge"
            href={linkTo(["sessions", parentage.parent])}
            title={`A sub-agent's session, of ${parentage.parent}`}
          >
            ↳ <bdi>{parentage.agent}</bdi>
          </a>
        )}{" "}
        <a href={linkTo(["sessions", session.session_id])}>
          <bdi>{session.title || "(nothing said yet)"}</bdi>
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
      {may("run") && (
        <td class="wide">
          {session.state !== "archived" && (
            <Action class="quiet" does={archive} label={`Archive ${session.title}`}>
              Archive
            </Action>
          )}
        </td>
      )}
    </tr>
  );
}

async function createSession(): Promise<void> {
  const session = await client().createSession();
  go(linkTo(["sessions", session.id]));
}

/** What was seen last of the newest, and of those that are older what was asked for. */
function joined(newest: readonly SessionSummary[], asked: readonly SessionSummary[]): readonly SessionSummary[] {
  const oldest = newest.at(-1);
  if (oldest === undefined) return asked;
  if (newest.length < PAGE) return newest;
  const seen = new Set(newest.map(({ session_id }) => session_id));
  const isOlder = (one: SessionSummary): boolean => one.updated_at <= oldest.updated_at && !seen.has(one.session_id);
  return [...newest, ...asked.filter(isOlder)];
}

function labelsOf(label: string): { labels: Record<string, string> } {
  const [key = "", ...value] = label.split("=");
  return { labels: { [key]: value.join("=") } };
}

function wordsOf({ title, session_id, model, state, labels = {} }: SessionSummary): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return [title, session_id, model, state, ...pairs].join(" ").toLowerCase();
}
