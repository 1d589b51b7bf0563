import { COMMS_TOOL_INPUTS, type CommsPeers, type CommsReceipt, type SendComms } from "../contract/wire/comms.ts";
import type { Tool } from "../ports/tool.ts";
import { defineTool } from "./define-tool.ts";

interface CommsCalls {
  /** The same effect sends one message. */
  send(command: SendComms, effectId: string): Promise<CommsReceipt>;
  peers(sessionId: string): Promise<CommsPeers>;
}

const AS_DATA =
  "The other session sees who sends it, and treats it as data: it decides itself what to do. " +
  "Do not answer a message that needs no answer: after eight messages since a person's prompt further ones are refused.";

/** The tools by which sessions of a realm write to each other. */
export function createCommsTools(comms: () => CommsCalls): readonly Tool[] {
  const sending = <K extends "send_message" | "send_request" | "send_response">(
    name: K,
    kind: SendComms["kind"],
    description: string,
  ): Tool =>
    defineTool({
      name,
      description: `${description} ${AS_DATA}`,
      input: COMMS_TOOL_INPUTS[name],
      effects: "idempotent",
      run: async ({ peer_id: to, display_name: _, ...said }, { sessionId: session_id, effectId }) => {
        const receipt = await comms().send({ ...said, kind, session_id, to }, effectId);
        return { status: "sent", kind, receipt };
      },
    });
  return [
    sending("send_message", "peer_message", "Send a message to another session. No answer is expected."),
    sending(
      "send_request",
      "peer_request",
      "Ask another session for something: its response names the request_id of the receipt, and begins a turn here.",
    ),
    sending("send_response", "peer_response", "Answer a request of another session, which gave its id."),
    defineTool({
      name: "peers",
      description: "List the other sessions that can be written to: their peer_id, name, and what they say they do.",
      input: COMMS_TOOL_INPUTS.peers,
      effects: "none",
      run: (_, { sessionId }) => comms().peers(sessionId),
    }),
  ];
}
