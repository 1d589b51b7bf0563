import { type Signal, signal, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { Action } from "../parts.tsx";
import { failed, may } from "../server.ts";
import type { SessionView } from "../session-view.ts";

const DRAFT = "rkat-draft-";
const drafts = new Map<string, Signal<string>>();

/** What was begun to be written to a session: it is there again after a look elsewhere, and after a reload. */
function draftOf(id: string): Signal<string> {
  const kept = drafts.get(id) ?? signal(sessionStorage.getItem(DRAFT + id) ?? "");
  drafts.set(id, kept);
  return kept;
}

function keep(id: string, text: string): void {
  draftOf(id).value = text;
  if (text === "") sessionStorage.removeItem(DRAFT + id);
  else sessionStorage.setItem(DRAFT + id, text);
}

export function PromptBox({ view }: { view: SessionView }): JSX.Element | null {
  const isSending = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const draft = draftOf(view.id);
  const info = view.info.value;
  if (!may("run") || info === undefined || info.state === "archived") return null;
  const isRunning = info.state === "running";
  const send = async (): Promise<void> => {
    const text = draft.value;
    if (text.trim() === "" || isSending.value) return;
    isSending.value = true;
    problem.value = undefined;
    let hasBegun = false;
    const begin = (): void => {
      if (hasBegun) return;
      hasBegun = true;
      isSending.value = false;
      // Written further meanwhile? Then that stays.
      if (draft.value === text) keep(view.id, "");
    };
    try {
      // What the turn says is heard with everything else; here only that it has begun, and is not lost.
      for await (const _ of view.handle.stream(text)) begin();
      begin();
    } catch (thrown) {
      // How a turn that has begun ended is told where it stands.
      if (!hasBegun) problem.value = failed(thrown);
    } finally {
      isSending.value = false;
      view.refresh().catch(() => {}); // That the server is away is told above.
    }
  };
  return (
    <form
      class="prompt"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <textarea
        aria-label="What to ask"
        placeholder="Ask something. Ctrl+Enter sends it."
        rows={Math.min(8, Math.max(2, draft.value.split("\n").length))}
        value={draft}
        onInput={(event) => keep(view.id, event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          void send();
        }}
      />
      <div class="prompt-side">
        {isRunning ? (
          <Action
            class="danger"
            does={async () => {
              await view.handle.interrupt();
              await view.refresh();
            }}
          >
            Interrupt
          </Action>
        ) : (
          <button type="submit" class="primary" disabled={isSending.value || draft.value.trim() === ""}>
            {isSending.value ? "Sending …" : "Send"}
          </button>
        )}
      </div>
      {problem.value !== undefined && (
        <p class="note bad" role="alert">
          It was not sent: <bdi>{problem}</bdi>
        </p>
      )}
    </form>
  );
}
