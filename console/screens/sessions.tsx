import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { formatAgo, formatCost, formatCount, formatTime, formatTokens } from "../format.ts";
import { Action, Answer, Badge, Empty, type Tone, useAsked } from "../parts.tsx";
import { go, linkTo } from "../router.ts";
import { client, may } from "../server.ts";

const PAGE = 1_000;
const LOOK_MS = 5_000;

export const TONES: Readonly<Record<string, Tone>> = {
  running: "live",
  waiting: "warn",
  interrupted: "bad",
  archived: "plain",
};

export function SessionsScreen(): JSX.Element {
  const query = useSignal("");
  const asked = useAsked(() => client().listSessions({ limit: PAGE }), []);
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") asked.again();
    }, LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="stack">
      <div class="row">
        <h1>Sessions</h1>
        <span class="grow" />
        <input
          type="search"
          aria-label="Search by title, id, model or label"
          placeholder="Search: title, id, model, label"
          value={query}
          onInput={(event) => {
            query.value = event.currentTarget.value;
          }}
        />
        {may("run") && (
          <Action class="primary" does={createSession}>
            New session
          </Action>
        )}
      </div>
      <Answer asked={asked}>
        {(sessions) => {
          const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
          const found = sessions.filter((session) => words.every((word) => wordsOf(session).includes(word)));
          if (found.length === 0)
            return <Empty>{sessions.length === 0 ? "No sessions yet." : "No session fits the search."}</Empty>;
          return (
            <table>
              <thead>
                <tr>
                  <th>Session</th>
                  <th>State</th>
                  <th>Model</th>
                  <th class="number">Messages</th>
                  <th class="number">Tokens</th>
                  <th class="number">Cost</th>
                  <th>Updated</th>
                  <th>
                    <span class="soft">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {found.map((session) => (
                  <tr key={session.session_id}>
                    <td>
                      <a href={linkTo(["sessions", session.session_id])}>
                        <bdi>{session.title || "(nothing said yet)"}</bdi>
                      </a>{" "}
                      {Object.entries(session.labels ?? {}).map(([key, value]) => (
                        <Badge key={key}>
                          <bdi>
                            {key}={value}
                          </bdi>
                        </Badge>
                      ))}
                    </td>
                    <td>
                      <Badge tone={TONES[session.state] ?? "plain"}>{session.state}</Badge>
                    </td>
                    <td>
                      <bdi>{session.model}</bdi>
                    </td>
                    <td class="number">{formatCount(session.message_count)}</td>
                    <td class="number">{formatTokens(session.total_tokens)}</td>
                    <td class="number">{formatCost(session.cost)}</td>
                    <td title={formatTime(session.updated_at)}>{formatAgo(session.updated_at)}</td>
                    <td>
                      {may("run") && (
                        <Action
                          class="quiet"
                          does={async () => {
                            await client().session(session.session_id).archive();
                            asked.again();
                          }}
                        >
                          Archive
                        </Action>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          );
        }}
      </Answer>
    </div>
  );
}

async function createSession(): Promise<void> {
  const session = await client().createSession();
  go(linkTo(["sessions", session.id]));
}

type Listed = Awaited<ReturnType<ReturnType<typeof client>["listSessions"]>>[number];

function wordsOf({ title, session_id, model, labels = {} }: Listed): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return [title, session_id, model, ...pairs].join(" ").toLowerCase();
}
