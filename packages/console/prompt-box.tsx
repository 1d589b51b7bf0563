import { type Signal, signal, useSignal } from "@preact/signals";
import type { Content, ContentBlock } from "@rkat/core/contract/message";
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { formatSize } from "./format.ts";
import { Action } from "./parts.tsx";
import { handleError } from "./server.ts";
import { base64Of, SHOWN_IMAGES } from "./transcript-text.tsx";

const DRAFT_KEY = "rkat-draft-";
const drafts = new Map<string, Signal<string>>();

/** An unsent message. It survives navigation and a reload of the page. */
function draftOf(id: string): Signal<string> {
  const draft = drafts.get(id) ?? signal(sessionStorage.getItem(DRAFT_KEY + id) ?? "");
  drafts.set(id, draft);
  return draft;
}

function saveDraft(id: string, text: string): void {
  draftOf(id).value = text;
  if (text === "") sessionStorage.removeItem(DRAFT_KEY + id);
  else sessionStorage.setItem(DRAFT_KEY + id, text);
}

/** A message with its files. Enter sends it, Shift+Enter breaks the line. */
export function PromptBox(props: {
  /** The name of the draft. */
  draft: string;
  /** Resolves once the message is accepted; the draft stays if it rejects. */
  send: (content: Content) => Promise<void>;
  /** Stops the running turn; absent if none runs. */
  stop?: () => Promise<void>;
}): JSX.Element {
  const isSending = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const files = useSignal<readonly File[]>([]);
  const chooser = useRef<HTMLInputElement>(null);
  const draft = draftOf(props.draft);
  const isEmpty = draft.value.trim() === "" && files.value.length === 0;
  const send = async (): Promise<void> => {
    const [text, attached] = [draft.value, files.value];
    if (isEmpty || isSending.value || props.stop !== undefined) return;
    isSending.value = true;
    problem.value = undefined;
    try {
      await props.send(await contentOf(text, attached));
      // If the user has typed more in the meantime, the draft stays.
      if (draft.value === text) saveDraft(props.draft, "");
      files.value = [];
    } catch (thrown) {
      problem.value = handleError(thrown);
    } finally {
      isSending.value = false;
    }
  };
  const attach = (added: FileList | null | undefined): void => {
    files.value = [...files.value, ...(added ?? [])];
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
        aria-label="Your message"
        placeholder="Type a message. Enter sends it, Shift+Enter breaks the line."
        rows={Math.min(8, Math.max(2, draft.value.split("\n").length))}
        value={draft}
        onInput={(event) => saveDraft(props.draft, event.currentTarget.value)}
        onPaste={(event) => attach(event.clipboardData?.files)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      <div class="prompt-side">
        {props.stop === undefined ? (
          <button type="submit" class="primary" disabled={isSending.value || isEmpty}>
            {isSending.value ? "Sending …" : "Send"}
          </button>
        ) : (
          <Action class="danger" run={props.stop}>
            Stop
          </Action>
        )}
        <button type="button" onClick={() => chooser.current?.click()}>
          Attach
        </button>
        <input
          ref={chooser}
          type="file"
          multiple
          hidden
          aria-label="Files to attach"
          onChange={(event) => {
            attach(event.currentTarget.files);
            event.currentTarget.value = "";
          }}
        />
      </div>
      {files.value.length > 0 && (
        <p class="row attached">
          {files.value.map((file) => (
            <button
              key={`${file.name} ${file.lastModified}`}
              type="button"
              class="badge"
              aria-label={`Remove ${file.name}`}
              onClick={() => {
                files.value = files.value.filter((one) => one !== file);
              }}
            >
              <bdi>{file.name}</bdi> {formatSize(file.size)} ✕
            </button>
          ))}
        </p>
      )}
      {problem.value !== undefined && (
        <p class="note bad" role="alert">
          Not sent: <bdi>{problem}</bdi>
        </p>
      )}
    </form>
  );
}

async function contentOf(text: string, files: readonly File[]): Promise<Content> {
  if (files.length === 0) return text;
  const blocks = await Promise.all(files.map(blockOf));
  return text.trim() === "" ? blocks : [{ type: "text", text }, ...blocks];
}

async function blockOf(file: File): Promise<ContentBlock> {
  const data = base64Of(new Uint8Array(await file.arrayBuffer()));
  if (SHOWN_IMAGES.includes(file.type)) return { type: "image", media_type: file.type, source: "inline", data };
  // Browsers know no type of most files of source text.
  const media_type = file.type === "application/pdf" ? file.type : "text/plain";
  return { type: "file", name: file.name, media_type, source: "inline", data };
}
