import {
  acceptedContent,
  type CallToolResult,
  type InputRequiredResult,
  inputRequired,
  inputResponse,
  McpServer,
} from "@modelcontextprotocol/server";
import { z } from "zod";

/** What the tools of a server are at the moment; a test changes it. */
export interface Shown {
  description: string;
  readonly learned: string[];
}

const said = (text: string): CallToolResult => ({ content: [{ type: "text", text }] });
const Colour = z.object({ colour: z.string() });
const COLOUR = { type: "string" as const, enum: ["red", "blue", "a-secret-of-ours"] };
const PAINT = {
  type: "object" as const,
  properties: { colour: COLOUR, layers: { type: "integer" as const, default: 2 } },
  required: ["colour"],
};
const FRAME = { type: "object" as const, properties: { frame: { type: "boolean" as const } } };

/** A server of 2026-07-28. */
export function createModernServer(shown: Shown, changed: (server: McpServer) => void): McpServer {
  const server = new McpServer({ name: "modern", version: "1" });
  const text = z.object({ text: z.string().optional() });
  server.registerTool("echo", { description: shown.description, inputSchema: text }, ({ text }) =>
    said(`You said: ${text}`),
  );
  server.registerTool("structured", { outputSchema: z.object({ celsius: z.number() }) }, () => ({
    content: [],
    structuredContent: { celsius: 7 },
  }));
  server.registerTool("fail", {}, () => ({ ...said("no such page"), isError: true }));
  server.registerTool("learn", { inputSchema: z.object({ name: z.string() }) }, ({ name }) => {
    shown.learned.push(name);
    changed(server);
    return said("learning");
  });
  for (const name of shown.learned) server.registerTool(name, {}, () => said("learned"));
  const args = z.object({ mode: z.string().optional(), times: z.number().optional() });
  server.registerTool(
    "paint",
    { inputSchema: args },
    ({ mode, times = 1 }, ctx): CallToolResult | InputRequiredResult => {
      const { inputResponses, requestState } = ctx.mcpReq;
      const before = requestState<string>();
      const answer = inputResponse(inputResponses, "colour");
      if (answer.kind === "elicit" && answer.action !== "accept") return said(`not painted: ${answer.action}`);
      const time = Number(before ?? 0);
      const chosen = acceptedContent(inputResponses, "colour", Colour);
      if (chosen !== undefined && time >= times) return said(`painted ${chosen.colour}`);
      const message = mode === "long" ? "x".repeat(20_000) : "Which colour?";
      const question = { message, requestedSchema: PAINT };
      const asked = {
        colour: inputRequired.elicit(question),
        ...(mode === "two" ? { frame: inputRequired.elicit({ message: "Which frame?", requestedSchema: FRAME }) } : {}),
      };
      const address = inputRequired.elicitUrl({ message: "Open it.", url: "https://example.com" });
      const inputRequests = mode === "url" ? { colour: address } : asked;
      return inputRequired({ inputRequests, requestState: String(time + 1) });
    },
  );
  return server;
}
