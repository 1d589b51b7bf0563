// A chat with `useChat`, without an adapter: it is stopped by its button, and goes on when the page is loaded again.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const API = "/ui/chat";

// The name of the chat lives as long as the tab; what was said is the server's to keep.
const id = sessionStorage.getItem("chat") ?? crypto.randomUUID();
sessionStorage.setItem("chat", id);

function Chat({ said }) {
  const [draft, setDraft] = useState("");
  const { messages, status, error, sendMessage, stop, regenerate, addToolApprovalResponse } = useChat({
    id,
    messages: said,
    resume: true,
    transport: new DefaultChatTransport({ api: API }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const isAnswering = status === "submitted" || status === "streaming";
  const send = (event) => {
    event.preventDefault();
    if (draft.trim() === "") return;
    sendMessage({ text: draft });
    setDraft("");
  };
  const stopNow = async () => {
    await stop();
    // At once, and not only when nobody has come back to it for a while.
    await fetch(`${API}/${encodeURIComponent(id)}/stream`, { method: "DELETE" });
  };
  return (
    <main>
      <h1>A chat</h1>
      <ol>
        {messages.map(({ id: message, role, parts }) => (
          <li key={message} data-role={role}>
            {parts.map((part, index) => (
              // Parts have no names, and keep their places.
              <Part key={index} part={part} answer={addToolApprovalResponse} />
            ))}
          </li>
        ))}
      </ol>
      <p role="status">{status}</p>
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={send}>
        <label>
          What to ask <input value={draft} onChange={({ target }) => setDraft(target.value)} />
        </label>
        <button type="submit" disabled={isAnswering}>
          Send
        </button>
        <button type="button" disabled={!isAnswering} onClick={stopNow}>
          Stop
        </button>
        <button type="button" disabled={isAnswering || messages.length === 0} onClick={() => regenerate()}>
          Answer again
        </button>
      </form>
    </main>
  );
}

function Part({ part, answer }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (part.type === "data-compaction" && part.data.phase === "completed") {
    return <p>{`${part.data.messages_before} messages became ${part.data.messages_after}.`}</p>;
  }
  if (part.type !== "dynamic-tool") return null;
  if (part.state !== "approval-requested") return <p>{`${part.toolName}: ${part.state}`}</p>;
  const word = (approved) => () => answer({ id: part.approval.id, approved });
  return (
    <p>
      {`${part.toolName} ${JSON.stringify(part.input)}? `}
      <button type="button" onClick={word(true)}>
        Allow
      </button>
      <button type="button" onClick={word(false)}>
        Deny
      </button>
    </p>
  );
}

const { messages } = await (await fetch(`${API}/${encodeURIComponent(id)}`)).json();
createRoot(document.getElementById("root")).render(<Chat said={messages} />);
