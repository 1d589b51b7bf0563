import { useSignal } from "@preact/signals";
import type { MemoryHit } from "@rkat/core/contract/memory";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { ComponentChildren, JSX } from "preact";
import { formatCount, formatId, formatSize, formatTime } from "../format.ts";
import { Badge, Empty, Facts, Loaded, Meter, Note, textField, useRequest } from "../parts.tsx";
import { linkTo, navigate, route } from "../router.ts";
import { call } from "../server.ts";

const HITS_MAX = 20;

/** The scopes of a search, by their name in the route. */
const SCOPES = [
  ["everything", "All messages"],
  ["left", "Messages that compactions removed"],
  ["session", "One session"],
] as const;

export function MemoryScreen(): JSX.Element {
  const { query } = route.value;
  const q = (query.get("q") ?? "").trim();
  const scope = SCOPES.find(([name]) => name === query.get("scope"))?.[0] ?? "everything";
  const session = query.get("session") ?? "";
  return (
    <div class="stack">
      <h1>Memory</h1>
      <Search key={`${q} ${scope} ${session}`} q={q} scope={scope} session={session} />
      {q === "" ? <Status /> : <Results key={`${q} ${scope} ${session}`} q={q} scope={scope} session={session} />}
    </div>
  );
}

interface Query {
  readonly q: string;
  readonly scope: (typeof SCOPES)[number][0];
  readonly session: string;
}

function Search({ q, scope, session }: Query): JSX.Element {
  const words = useSignal(q);
  const where = useSignal<string>(scope);
  const id = useSignal(session);
  const submit = (event: Event): void => {
    event.preventDefault();
    const more = { scope: where.value, session: where.value === "session" ? id.value.trim() : undefined };
    navigate(linkTo(["memory"], { q: words.value.trim(), ...more }));
  };
  return (
    <form class="search" onSubmit={submit}>
      <label class="grow">
        Search memory
        <input type="search" placeholder="Words that the text may contain" {...textField(words)} />
      </label>
      <label>
        Scope
        <select {...textField(where)}>
          {SCOPES.map(([name, title]) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </select>
      </label>
      {where.value === "session" && (
        <label>
          Session
          <input placeholder="Session id" {...textField(id)} />
        </label>
      )}
      <button type="submit" class="primary">
        Search
      </button>
    </form>
  );
}

function Results({ q, scope, session }: Query): JSX.Element {
  const request = useRequest(() => {
    const where = scope === "session" ? { session_id: session, scope } : {};
    const input = { query: q, ...where, limit: HITS_MAX, explain: true };
    return call(scope === "left" ? "searchMemory" : "searchHistory", input);
  }, []);
  return (
    <Loaded request={request}>
      {({ results, mode }) => (
        <>
          {mode === "lexical" && <Note kind="plain">Searched by words only: no vectors are available yet.</Note>}
          {results.length === 0 ? (
            <Empty>No results. Try other words, or search all messages.</Empty>
          ) : (
            <Hits hits={results} query={q} />
          )}
        </>
      )}
    </Loaded>
  );
}

/** Search results, best first, with the parts of their score. */
export function Hits({ hits, query }: { hits: readonly MemoryHit[]; query: string }): JSX.Element {
  return (
    <ol class="hits" aria-label="Results">
      {hits.map((hit) => (
        <li key={`${hit.session_id} ${hit.agent} ${hit.seq}`} class="card hit">
          <div class="row">
            <Badge>{hit.role}</Badge>
            {hit.in_context !== undefined && hit.agent === undefined && (
              <Badge tone={hit.in_context ? "good" : "plain"}>{hit.in_context ? "in context" : "not in context"}</Badge>
            )}
            <span class="soft">{formatTime(hit.created_at)}</span>
            <span class="grow" />
            <a href={sourceOf(hit)}>
              {hit.agent === undefined ? (
                <>
                  Turn {hit.turn} of {formatId(hit.session_id)}
                </>
              ) : (
                <>
                  Memory {hit.turn} of <bdi>{hit.agent}</bdi>
                </>
              )}
            </a>
          </div>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard */}
          <pre class="text" tabIndex={0}>
            {marked(withoutControls(hit.content), query)}
          </pre>
          <div class="score">
            <Meter name="Score" share={hit.score} text={percent(hit.score)} />
            {hit.why !== undefined && (
              <>
                <Meter name="Words" share={hit.why.words} text={percent(hit.why.words)} />
                <Meter name="Meaning" share={hit.why.meaning} text={percent(hit.why.meaning)} />
                <Meter name="Neighbours" share={hit.why.neighbours} text={percent(hit.why.neighbours)} />
              </>
            )}
          </div>
        </li>
      ))}
    </ol>
  );
}

/** A text with the words of a query marked. */
function marked(text: string, query: string): ComponentChildren {
  const words = query.match(/[\p{L}\p{N}]{2,}/gu) ?? [];
  if (words.length === 0) return text;
  // Words have letters and digits only, so the expression needs no escapes.
  const expression = new RegExp(`(${words.join("|")})`, "giu");
  return text.split(expression).map((part, index) => (index % 2 === 1 ? <mark key={index}>{part}</mark> : part));
}

/** The message that a hit comes from, or the agent that remembers it. */
function sourceOf({ agent, session_id, seq }: MemoryHit): string {
  return agent === undefined ? linkTo(["sessions", session_id], { seq }) : linkTo(["agents", agent]);
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function Status(): JSX.Element {
  const request = useRequest(() => call("readMemoryStatus", {}), []);
  return (
    <section class="card" aria-labelledby="index-status">
      <h2 id="index-status">Search index</h2>
      <Loaded request={request}>
        {({ entries, pending, sessions_behind, embedder, index, bytes, mode, problem }) => (
          <>
            {problem !== undefined && <Note kind="bad">{problem}</Note>}
            <Facts
              rows={[
                ["Searchable chunks", formatCount(entries)],
                ["Chunks without a vector", formatCount(pending)],
                ["Sessions not fully indexed", formatCount(sessions_behind)],
                ["Embedding model", embedder],
                ["Vector index", index],
                ["Size on disk", formatSize(bytes)],
                ["Search mode", mode === "hybrid" ? "words and meaning" : "words only"],
              ]}
            />
          </>
        )}
      </Loaded>
    </section>
  );
}
