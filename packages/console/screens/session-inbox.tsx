import type { AgentEvent } from "@rkat/core/contract/event";
import type { JSX } from "preact";
import { formatTime } from "../format.ts";
import { Action, Badge, Empty, Loaded, type Tone, useRequest } from "../parts.tsx";
import { call, hasScope } from "../server.ts";
import type { SessionView } from "../session-view.ts";
import { LongText } from "../transcript-text.tsx";
import { readEvents } from "./session-timeline.tsx";

type Waiting = SessionView["inbox"]["value"][number];

/** What waits in a session, and what runs beside its turns. */
export function InboxScreen({ view }: { view: SessionView }): JSX.Element {
  const messages = view.inbox.value;
  const remove = async ({ message_id }: Waiting): Promise<void> => {
    await call("removeInboxMessage", { session_id: view.id, message_id });
    await view.refresh();
  };
  return (
    <div class="stack">
      <section aria-label="Waiting messages">
        <h2>Waiting messages</h2>
        {messages.length === 0 && <Empty>No messages are waiting. One that is sent during a turn waits here.</Empty>}
        <ol class="cards">
          {messages.map((message) => (
            <li key={message.message_id} class="card">
              <div class="row">
                <Badge>{message.when_busy}</Badge>
                {message.source.type !== "user" && <Badge>from a {message.source.type}</Badge>}
                <span class="grow" />
                <span class="soft">{formatTime(message.queued_at)}</span>
                {hasScope("run") && (
                  <Action class="quiet" run={() => remove(message)} label={`Remove ${message.text.slice(0, 40)}`}>
                    Remove
                  </Action>
                )}
              </div>
              <p class="text">{message.text}</p>
            </li>
          ))}
        </ol>
      </section>
      <Jobs view={view} />
    </div>
  );
}

interface Job {
  readonly id: string;
  readonly command: string;
  readonly startedMs?: number;
  readonly endedMs?: number;
  readonly state: string;
  /** The end of its output. */
  readonly output?: string;
}

const TONES: Readonly<Record<string, Tone>> = { running: "live", completed: "good", failed: "bad" };

function Jobs({ view }: { view: SessionView }): JSX.Element {
  const request = useRequest(
    async () => jobsIn(await readEvents(view)),
    [view, view.count.value, view.info.value?.updated_at],
  );
  const cancel = (job_id: string) => call("cancelJob", { session_id: view.id, job_id });
  return (
    <section aria-label="Background jobs">
      <h2>Background jobs</h2>
      <Loaded request={request}>
        {(jobs) => (
          <>
            {jobs.length === 0 && <Empty>No commands were started in the background.</Empty>}
            <ul class="cards">
              {jobs.map(({ id, command, startedMs, endedMs, state, output }) => (
                <li key={id} class="card">
                  <div class="row">
                    <bdi class="mono text">{command}</bdi>
                    <Badge tone={TONES[state] ?? "warn"}>{state}</Badge>
                    <span class="grow" />
                    <span class="soft">
                      {[startedMs, endedMs]
                        .flatMap((ms) => (ms === undefined ? [] : [formatTime(ms / 1_000)]))
                        .join(" – ")}
                    </span>
                    {state === "running" && hasScope("run") && (
                      <Action class="quiet" run={() => cancel(id)} label={`Cancel ${command.slice(0, 40)}`}>
                        Cancel
                      </Action>
                    )}
                  </div>
                  {output !== undefined && output !== "" && <LongText text={output} isCode />}
                </li>
              ))}
            </ul>
          </>
        )}
      </Loaded>
    </section>
  );
}

/** The jobs that events tell of, newest first. */
function jobsIn(events: readonly { readonly atMs: number; readonly event: AgentEvent }[]): readonly Job[] {
  const commands = new Map<string, string>();
  const jobs = new Map<string, Job>();
  for (const { atMs, event } of events) {
    if (event.type === "tool_call_requested" && event.args.background === true)
      commands.set(event.id, String(event.args.command));
    if (event.type === "tool_execution_completed") {
      const [command, id] = [commands.get(event.id), /"job_id":"([^"]+)"/.exec(event.result)?.[1]];
      if (command !== undefined && id !== undefined) jobs.set(id, { id, command, startedMs: atMs, state: "running" });
    }
    if (event.type !== "background_job_completed") continue;
    const { job_id: id, display_name, terminal_status, status = terminal_status, detail } = event;
    jobs.set(id, { command: display_name, ...jobs.get(id), id, endedMs: atMs, state: status, output: detail });
  }
  return [...jobs.values()].reverse();
}
