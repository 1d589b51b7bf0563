import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses as isAnswered } from "ai";
import { createRoot } from "react-dom/client";

const api = "/agent/ui/chat";
const settings = { resume: true, transport: new DefaultChatTransport({ api }), sendAutomaticallyWhen: isAnswered };
function Chat(said) {
  const { messages, sendMessage, addToolApprovalResponse } = useChat({ ...said, ...settings });
  const show = ({ type, text, toolName, state, approval }, index) => {
    if (state !== "approval-requested") return <p key={index}>{type === "text" ? text : toolName}</p>;
    const say = ({ target }) => addToolApprovalResponse({ id: approval.id, approved: target.value === "Allow" });
    return ["Allow", "Deny"].map((word) => <input key={word} type="button" value={word} onClick={say} />);
  };
  return (
    <form action={(form) => void sendMessage({ text: form.get("text") })}>
      {messages.flatMap(({ parts }) => parts).map(show)}
      <input name="text" aria-label="Your question" />
    </form>
  );
}
const { id, messages } = await (await fetch(`${api}/support`)).json();
createRoot(document.getElementById("root")).render(<Chat id={id} messages={messages} />);
