import { cliFlag } from "../input.ts";
import { jsonChars } from "../json.ts";
import { TextBlock } from "../message.ts";
import { z } from "../schema.ts";
import { PeerMeta, SessionId } from "../session.ts";

const CHARS_MAX = 65_536;
const shortText = { error: "write a text of 1 to 200 characters" };
const short = z.string(shortText).min(1, shortText).max(200, shortText);
const isShort = (value: unknown): boolean => jsonChars(value) <= CHARS_MAX;
const tooLong = { error: `write at most ${CHARS_MAX} characters of JSON` };

const KINDS = ["peer_message", "peer_request", "peer_response", "input"] as const;
const kindWanted = { error: `write one of ${KINDS.join(", ")}; there are no mobs, so there is no peer_lifecycle` };

/** What each kind needs, and what else it may have besides `blocks` and `handling_mode`. */
const FIELDS: Readonly<Record<(typeof KINDS)[number], readonly [needs: readonly string[], has: readonly string[]]>> = {
  peer_message: [["to", "body"], []],
  peer_request: [
    ["to", "intent"],
    ["params", "stream"],
  ],
  peer_response: [["to", "in_reply_to", "status"], ["result"]],
  input: [["body"], ["source", "stream", "allow_self_session"]],
};
const OF_SOME = [...new Set(Object.values(FIELDS).flat(2))];

const said = {
  body: z
    .string()
    .max(CHARS_MAX, { error: `write at most ${CHARS_MAX} characters` })
    .describe("the text"),
  blocks: z
    .array(TextBlock, { error: "write a list of text blocks; other media go into a prompt" })
    .refine(isShort, tooLong)
    .nullish()
    .describe("further text, below it"),
  intent: short.describe("what is asked for, such as review"),
  params: z.unknown().refine(isShort, tooLong).optional().describe("details of what is asked for, any JSON"),
  in_reply_to: z.uuid({ error: "write the id of a request, a UUID" }).describe("the request, by its request_id"),
  status: z
    .enum(["accepted", "completed", "failed"], { error: "write accepted, completed or failed" })
    .describe("accepted: work on the request has begun; completed or failed: it has ended"),
  result: z.unknown().refine(isShort, tooLong).optional().describe("what came of it, any JSON"),
};
const handling = z
  .enum(["queue", "steer"], { error: "write queue or steer" })
  .describe("queue: it begins a turn of its own; steer: the running turn is shown it with its next model call");

/** A message to another session of the realm, or to this one from outside; the model is shown it as data. */
const SendComms = z
  .strictObject({
    session_id: cliFlag("ID", SessionId.clone().describe("the session that sends it; of an input, that gets it")),
    kind: cliFlag("--kind <kind>", z.enum(KINDS, kindWanted).default("peer_message").describe("what kind it is")),
    to: cliFlag("--to <name>", short.optional().describe("the session that gets it, by its comms_name or its id")),
    body: cliFlag("[BODY]", said.body.optional()),
    blocks: said.blocks,
    intent: cliFlag("--intent <name>", said.intent.optional()),
    params: cliFlag("--params <json>", said.params),
    in_reply_to: cliFlag("--in-reply-to <id>", said.in_reply_to.optional()),
    status: cliFlag("--status <status>", said.status.optional()),
    result: cliFlag("--result <json>", said.result),
    handling_mode: cliFlag("--handling <mode>", handling.default("queue")),
    source: z
      .enum(["tcp", "uds", "stdin", "webhook", "rpc"])
      .optional()
      .describe("of an input: where it comes from; the model sees it"),
    stream: z
      .enum(["none", "reserve_interaction"])
      .optional()
      .describe("accepted from clients that ask for it; no stream is reserved, and the receipt says so"),
    allow_self_session: z.boolean().optional().describe("of an input: accepted; it is always for this session"),
  })
  .superRefine(({ kind, ...given }, issues) => {
    const [needs, has] = FIELDS[kind];
    const fields = new Map(Object.entries(given));
    const refuse = (field: string, message: string) => issues.addIssue({ code: "custom", path: [field], message });
    for (const field of needs) if (fields.get(field) === undefined) refuse(field, `write it; a ${kind} needs it`);
    for (const field of OF_SOME)
      if (fields.get(field) !== undefined && !needs.includes(field) && !has.includes(field))
        refuse(field, `a ${kind} has none; leave it out`);
  });
export type SendComms = z.infer<typeof SendComms>;

const id = z.string().optional();
export const CommsReceipt = z.object({
  kind: z
    .enum(["peer_message_sent", "peer_request_sent", "peer_response_sent", "input_accepted"])
    .describe("what was sent"),
  envelope_id: id.describe("the message's id in the other session's inbox"),
  acked: z.literal(true).optional().describe("of a message: that it is in the log of the other session"),
  interaction_id: id.describe("of a request or input: the same id, for clients that look here"),
  request_id: id.describe("of a request: what its responses name as in_reply_to"),
  in_reply_to: id.describe("of a response: the request"),
  stream_reserved: z.literal(false).optional().describe("of a request or input: that no stream was reserved"),
});
export type CommsReceipt = z.infer<typeof CommsReceipt>;

const Peer = z.object({
  peer_id: z.string().describe("the session's id: what a message is addressed to"),
  name: z.string().describe("its comms_name, which several sessions may have"),
  address: z
    .object({
      transport: z.literal("inproc").describe("that it is in the realm"),
      endpoint: z.string().describe("its name"),
    })
    .describe("for clients that look for one"),
  source: z.literal("inproc").describe("that it is a session of this realm"),
  sendable_kinds: z.array(z.enum(KINDS)).describe("what can be sent to it"),
  capabilities: z
    .object({ version: z.literal(1).describe("of this table"), extensions: z.object({}).describe("none") })
    .describe("nothing further"),
  reachability: z.literal("reachable").describe("a message is kept until it can be read"),
  last_unreachable_reason: z.null().describe("always null"),
  meta: PeerMeta.describe("what it says of itself"),
});
export const CommsPeers = z.object({
  peers: z.array(Peer).describe("the other sessions that have a comms_name, last used first"),
});
export type CommsPeers = z.infer<typeof CommsPeers>;

const peer_id = short.describe("the other session: its peer_id as peers gives it, or its name if no other has that");
const display_name = short.optional().describe("the name you know it by");
const tool = { peer_id, display_name, blocks: said.blocks, handling_mode: handling.default("queue") };
const { body, intent, params, in_reply_to, status, result } = said;

/** What the tools of a model take. */
export const COMMS_TOOL_INPUTS = {
  send_message: z.strictObject({ ...tool, body }),
  send_request: z.strictObject({ ...tool, intent, params }),
  send_response: z.strictObject({ ...tool, in_reply_to, status, result }),
  peers: z.strictObject({}),
};

/** The rows of the table about messages between sessions. */
export const COMMS_OPERATIONS = {
  sendComms: {
    summary: "Send a message from one session to another of the realm, whose model is shown it as data.",
    input: SendComms,
    output: CommsReceipt,
    rpc: "comms/send",
    method: "send",
    rpcNulls: true,
    http: "POST /comms/send",
    mcp: "meerkat_comms_send",
    mcpListed: false,
    cli: "rkat comms send ID [BODY]",
    scope: "run",
    audited: false,
    effect: "adds",
  },
  listPeers: {
    summary: "List the sessions of the realm that a session can send messages to.",
    input: z.strictObject({ session_id: SessionId }),
    output: CommsPeers,
    rpc: "comms/peers",
    method: "peers",
    http: "GET /comms/peers",
    mcp: "meerkat_comms_peers",
    mcpListed: false,
    cli: "rkat comms peers ID",
    scope: "read",
  },
} as const;
