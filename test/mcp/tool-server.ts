import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import {
  CallToolRequestSchema,
  type CallToolResult,
  type ElicitResult,
  ElicitResultSchema,
  ListToolsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const HUGE_CHARS = 300_000;

const COLOUR = { type: "string", enum: ["red", "blue", "a-secret-of-ours"] };
const PAINT = {
  message: "Which colour?",
  requestedSchema: {
    type: "object",
    properties: { colour: COLOUR, layers: { type: "integer", default: 2 } },
    required: ["colour"],
  },
};

const said = (text: string): CallToolResult => ({ content: [{ type: "text", text }] });

interface World {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  /** Ends the process the server runs in. */
  exit(code: number): void;
  /** Told of a call that begins to wait for its own cancellation, and of the cancellation. */
  note(word: string): void;
}

type Run = (args: Readonly<Record<string, unknown>>, signal: AbortSignal) => Promise<CallToolResult> | CallToolResult;

/** A server whose tools do what servers of others do on good and on bad days. */
export function createToolServer({ env, pid, exit, note }: World): Server {
  const capabilities = { tools: { listChanged: true } };
  const server = new Server({ name: "tool-server", version: "1" }, { capabilities });
  const tools: Record<string, Run> = {
    echo: ({ text }) => said(`You said: ${text}`),
    pid: () => said(String(pid)),
    env: ({ name }) => said(`${name} is ${env[String(name)] ?? "not set"}`),
    names: () => said(Object.keys(env).sort().join(" ")),
    image: () => ({ content: [{ type: "image", data: PNG, mimeType: "image/png" }] }),
    mixed: () => ({
      content: [
        { type: "text", text: "one" },
        { type: "resource", resource: { uri: "test://two", mimeType: "text/plain", text: "two" } },
        { type: "audio", data: PNG, mimeType: "audio/wav" },
        { type: "resource_link", uri: "test://three", name: "three" },
      ],
    }),
    structured: () => ({ content: [], structuredContent: { celsius: 7 } }),
    fail: () => ({ ...said("no such page"), isError: true }),
    huge: () => said("x".repeat(HUGE_CHARS)),
    die: () => {
      exit(3);
      return new Promise(() => {});
    },
    wait: (_, signal) =>
      new Promise(() => {
        signal.addEventListener("abort", () => note("cancelled"));
        note("waiting");
      }),
    learn: async ({ name }) => {
      tools[String(name)] = () => said("learned");
      await server.sendToolListChanged();
      return said("learning");
    },
    paint: async ({ mode, times = 1 }) => {
      const isLong = mode === "long" || mode === "odd";
      const questions = { ...PAINT, ...(isLong ? { message: "x".repeat(20_000) } : {}) };
      if (mode === "odd") Object.assign(questions, { requestedSchema: { type: "list" } });
      const address = { mode: "url" as const, message: "Open it.", url: "https://example.com", elicitationId: "1" };
      let answer: ElicitResult | undefined;
      for (let time = 0; time < Number(times); time += 1) {
        answer = await server
          .request({ method: "elicitation/create", params: mode === "url" ? address : questions }, ElicitResultSchema, {
            timeout: 600_000,
          })
          .catch((thrown: unknown) => ({ action: "cancel" as const, _meta: { thrown: String(thrown) } }));
        if (answer.action !== "accept") return said(`not painted: ${answer._meta?.thrown ?? answer.action}`);
      }
      note(`painted ${answer?.content?.colour}`);
      return said(`painted ${answer?.content?.colour}`);
    },
    "odd.name/of a tool": () => said("odd"),
    unsound: () => said("never"),
  };
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: Object.keys(tools).map((name) => ({
      name,
      description: `does ${name}`,
      inputSchema: {
        type: "object" as const,
        properties: name === "unsound" ? { a: { type: "nonsense" } } : { text: { type: "string" } },
      },
    })),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal }) => {
    const run = tools[params.name];
    if (run === undefined) throw new Error(`there is no ${params.name}`);
    return run(params.arguments ?? {}, signal);
  });
  return server;
}
