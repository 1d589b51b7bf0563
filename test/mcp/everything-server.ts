import {
  type CallToolResult,
  type GetPromptResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
} from "@modelcontextprotocol/server";

type Extra = ServerContext["mcpReq"];
type Args = Readonly<Record<string, unknown>>;
type Content = CallToolResult["content"];
type Fixture = (args: Args, extra: Extra) => Promise<CallToolResult> | CallToolResult;

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";
const image = { type: "image", data: PNG, mimeType: "image/png" } as const;
const text = (said: string) => ({ type: "text", text: said }) as const;
const answer = (...content: Content): CallToolResult => ({ content });
const resource = (uri: string, mimeType: string, said: string) =>
  ({ type: "resource", resource: { uri, mimeType, text: said } }) as const;
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

const oneOf = (word: string, noun: string) =>
  ["First", "Second", "Third"].map((nth, at) => ({ const: `${word}${at + 1}`, title: `${nth} ${noun}` }));
const OPTIONS = ["option1", "option2", "option3"];

const DEFAULTS = {
  name: { type: "string", default: "John Doe" },
  age: { type: "integer", default: 30 },
  score: { type: "number", default: 95.5 },
  status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", default: true },
} as const;

const ENUMS = {
  untitledSingle: { type: "string", enum: OPTIONS },
  titledSingle: { type: "string", oneOf: oneOf("value", "Option") },
  legacyEnum: {
    type: "string",
    enum: ["opt1", "opt2", "opt3"],
    enumNames: ["Option One", "Option Two", "Option Three"],
  },
  untitledMulti: { type: "array", items: { type: "string", enum: OPTIONS } },
  titledMulti: { type: "array", items: { anyOf: oneOf("value", "Choice") } },
} as const;

async function ask(extra: Extra, message: string, properties: Record<string, object>, required: string[] = []) {
  // The five kinds of enumeration are told apart by a union that literals of a table do not fit.
  const requestedSchema = { type: "object", properties, required } as never;
  const params = { message, requestedSchema };
  return extra.send({ method: "elicitation/create", params });
}

const asked = async (extra: Extra, properties: Record<string, object>) => {
  const { action, content } = await ask(extra, "Please check these", properties);
  return answer(text(`Elicitation completed: action=${action}, content=${JSON.stringify(content)}`));
};

/** What the suite calls, by name; none of it is a tool of ours. */
const TOOLS: Readonly<Record<string, Fixture>> = {
  test_simple_text: () => answer(text("This is a simple text response for testing.")),
  test_image_content: () => answer(image),
  test_audio_content: () => answer({ type: "audio", data: WAV, mimeType: "audio/wav" }),
  test_embedded_resource: () =>
    answer(resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
  test_multiple_content_types: () =>
    answer(
      text("Multiple content types test:"),
      image,
      resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ),
  test_tool_with_logging: async (_, { log }) => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      await log("info", data);
      await pause();
    }
    return answer(text("done"));
  },
  test_error_handling: () => ({
    content: [text("This tool intentionally returns an error for testing")],
    isError: true,
  }),
  test_tool_with_progress: async (_, { notify, _meta }) => {
    const progressToken = _meta?.progressToken ?? 0;
    for (const progress of [0, 50, 100]) {
      await notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      await pause();
    }
    return answer(text("done"));
  },
  test_sampling: async ({ prompt }, { send }) => {
    const messages = [{ role: "user" as const, content: text(String(prompt)) }];
    const request = { method: "sampling/createMessage" as const, params: { messages, maxTokens: 100 } };
    const { content } = await send(request);
    const [said] = [content].flat();
    return answer(text(`LLM response: ${said?.type === "text" ? said.text : said?.type}`));
  },
  test_elicitation: async ({ message }, extra) => {
    const field = { type: "string", description: "User's response" };
    const required = ["username", "email"];
    const { action, content } = await ask(extra, String(message), { username: field, email: field }, required);
    return answer(text(`User response: <action: ${action}, content: ${JSON.stringify(content)}>`));
  },
  test_elicitation_sep1034_defaults: (_, extra) => asked(extra, DEFAULTS),
  test_elicitation_sep1330_enums: (_, extra) => asked(extra, ENUMS),
  json_schema_2020_12_tool: () => answer(text("done")),
};

const SCHEMA_2020 = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object" as const,
  $defs: { address: { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
  properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
  additionalProperties: false,
};

const says = (...content: GetPromptResult["messages"][number]["content"][]): GetPromptResult => ({
  messages: content.map((one) => ({ role: "user", content: one })),
});

const PROMPTS: Readonly<Record<string, { args: readonly string[]; get: (args: Args) => GetPromptResult }>> = {
  test_simple_prompt: { args: [], get: () => says(text("This is a simple prompt for testing.")) },
  test_prompt_with_arguments: {
    args: ["arg1", "arg2"],
    get: ({ arg1, arg2 }) => says(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  },
  test_prompt_with_embedded_resource: {
    args: ["resourceUri"],
    get: ({ resourceUri }) =>
      says(
        resource(String(resourceUri), "text/plain", "Embedded resource content for testing."),
        text("Please process the embedded resource above."),
      ),
  },
  test_prompt_with_image: { args: [], get: () => says(image, text("Please analyze the image above.")) },
};

const RESOURCES = [
  { uri: "test://static-text", mimeType: "text/plain", text: "This is the content of the static text resource." },
  { uri: "test://static-binary", mimeType: "image/png", blob: PNG },
  { uri: "test://watched-resource", mimeType: "text/plain", text: "Watched resource content" },
];

function readResource(uri: string) {
  const found = RESOURCES.find((one) => one.uri === uri);
  if (found !== undefined) return found;
  const [, id] = /^test:\/\/template\/([^/]+)\/data$/.exec(uri) ?? [];
  if (id === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Resource not found: ${uri}`);
  const data = { id, templateTest: true, data: `Data for ID: ${id}` };
  return { uri, mimeType: "application/json", text: JSON.stringify(data) };
}

/** A server with everything the official suite asks for, to be connected by our own transports. */
export function createEverythingServer(): Server {
  const capabilities = { tools: {}, logging: {}, prompts: {}, completions: {}, resources: { subscribe: true } };
  const server = new Server({ name: "everything", version: "1" }, { capabilities });
  server.setRequestHandler("tools/list", () => ({
    tools: Object.keys(TOOLS).map((name) => ({
      name,
      description: `the fixture ${name}`,
      inputSchema: name.startsWith("json_schema") ? SCHEMA_2020 : { type: "object" as const },
    })),
  }));
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => {
    const run = TOOLS[params.name];
    if (run === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${params.name}`);
    return run(params.arguments ?? {}, mcpReq);
  });
  server.setRequestHandler("prompts/list", () => ({
    prompts: Object.entries(PROMPTS).map(([name, { args }]) => ({
      name,
      description: `the fixture ${name}`,
      arguments: args.map((arg) => ({ name: arg, required: true })),
    })),
  }));
  server.setRequestHandler("prompts/get", ({ params }) => {
    const prompt = PROMPTS[params.name];
    if (prompt === undefined)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown prompt: ${params.name}`);
    return prompt.get(params.arguments ?? {});
  });
  server.setRequestHandler("completion/complete", () => ({ completion: { values: [], total: 0, hasMore: false } }));
  server.setRequestHandler("resources/list", () => ({
    resources: RESOURCES.map(({ uri, mimeType }) => ({ uri, mimeType, name: uri, description: `the fixture ${uri}` })),
  }));
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", mimeType: "application/json" }],
  }));
  server.setRequestHandler("resources/read", ({ params }) => ({ contents: [readResource(params.uri)] }));
  server.setRequestHandler("resources/subscribe", () => ({}));
  server.setRequestHandler("resources/unsubscribe", () => ({}));
  return server;
}
