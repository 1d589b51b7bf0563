import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { MemoryHit } from "../../src/contract/memory.ts";
import { formatCount, formatId, formatSize, formatTime } from "../format.ts";
import { Answer, Badge, Empty, Facts, Meter, Note, useAsked } from "../parts.tsx";
import { go, linkTo, place } from "../router.ts";
import { client } from "../server.ts";

const HITS = 20;

/** Where to look, as the address has it. */
const SCOPES = [
  ["everything", "Everything that was said"],
  ["left", "What compactions took out of contexts"],
  ["session", "One session"],
] as const;

export function MemoryScreen(): JSX.Element {
  const { query } = place.value;
  const q = (query.get("q") ?? "").trim();
  const scope = SCOPES.find(([name]) => name === query.get("scope"))?.[0] ?? "everything";
  const session = query.get("session") ?? "";
  return (
    <div class="stack">
      <h1>Memory</h1>
      <Search key={`${q} ${scope} ${session}`} q={q} scope={scope} session={session} />
      {q === "" ? <Status /> : <Found key={`${q} ${scope} ${session}`} q={q} scope={scope} session={session} />}
    </div>
  );
}

interface Asking {
  readonly q: string;
  readonly scope: (typeof SCOPES)[number][0];
  readonly session: string;
}

function Search({ q, scope, session }: Asking): JSX.Element {
  const words = useSignal(q);
  const where = useSignal<string>(scope);
  const id = useSignal(session);
  const submit = (event: Event): void => {
    event.preventDefault();
    const more = { scope: where.value, session: where.value === "session" ? id.value.trim() : undefined };
    go(linkTo(["memory"], { q: words.value.trim(), ...more }));
  };
  return (
    <form class="search" onSubmit={submit}>
      <label class="grow">
        What to look for
        <input
          type="search"
          value={words}
          placeholder="in words that were probably used"
          onInput={(event) => {
            words.value = event.currentTarget.value;
          }}
        />
      </label>
      <label>
        Where
        <select
          value={where}
          onChange={(event) => {
            where.value = event.currentTarget.value;
          }}
        >
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
          <input
            value={id}
            placeholder="its id"
            onInput={(event) => {
              id.value = event.currentTarget.value;
            }}
          />
        </label>
      )}
      <button type="submit" class="primary">
        Search
      </button>
    </form>
  );
}

function Found({ q, scope, session }: Asking): JSX.Element {
  const asked = useAsked(() => {
    const where = scope === "session" ? { sessionId: session } : {};
    return client().searchMemory(q, { ...where, limit: HITS, everything: scope !== "left", explain: true });
  }, []);
  return (
    <Answer asked={asked}>
      {({ results, mode }) => (
        <>
          {mode === "lexical" && <Note kind="plain">Found by words alone: there are no vectors yet.</Note>}
          {results.length === 0 ? (
            <Empty>Nothing was found. Other words, or everything that was said, may find it.</Empty>
          ) : (
            <Hits hits={results} />
          )}
        </>
      )}
    </Answer>
  );
}

/** What was found, the best first, with why. */
export function Hits({ hits }: { hits: readonly MemoryHit[] }): JSX.Element {
  return (
    <ol class="hits" aria-label="What was found">
      {hits.map((hit) => (
        <li key={`${hit.session_id} ${hit.agent} ${hit.seq}`} class="card hit">
          <div class="row">
            <Badge>{hit.role}</Badge>
            {hit.in_context !== undefined && hit.agent === undefined && (
              <Badge tone={hit.in_context ? "good" : "plain"}>
                {hit.in_context ? "in the context now" : "not in the context"}
              </Badge>
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
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard */}
          <pre class="text said" tabIndex={0}>
            {hit.content}
          </pre>
          <div class="whys">
            <Meter name="Score" part={hit.score} text={percent(hit.score)} />
            {hit.why !== undefined && (
              <>
                <Meter name="Words" part={hit.why.words} text={percent(hit.why.words)} />
                <Meter name="Meaning" part={hit.why.meaning} text={percent(hit.why.meaning)} />
                <Meter name="Neighbours" part={hit.why.neighbours} text={percent(hit.why.neighbours)} />
              </>
            )}
          </div>
        </li>
      ))}
    </ol>
  );
}

/** The message it was said in; what an agent remembers lies with the agent. */
function sourceOf({ agent, session_id, seq }: MemoryHit): string {
  return agent === undefined ? linkTo(["sessions", session_id], { seq }) : linkTo(["agents", agent]);
}

function percent(part: number): string {
  return `${Math.round(part * 100)} %`;
}

function Status(): JSX.Element {
  const asked = useAsked(() => client().readMemoryStatus(), []);
  return (
    <section class="card" aria-labelledby="index-status">
      <h2 id="index-status">The index</h2>
      <Answer asked={asked}>
        {({ entries, pending, sessions_behind, embedder, index, bytes, mode, problem }) => (
          <>
            {problem !== undefined && <Note kind="bad">{problem}</Note>}
            <Facts
              rows={[
                ["Pieces that can be found", formatCount(entries)],
                ["Still without a vector", formatCount(pending)],
                ["Sessions not taken in to their end", formatCount(sessions_behind)],
                ["Vectors are made by", embedder],
                ["Vectors are searched by", index],
                ["On disk", formatSize(bytes)],
                ["Searches", mode === "hybrid" ? "by words and by meaning" : "by words alone"],
              ]}
            />
          </>
        )}
      </Answer>
    </section>
  );
}
