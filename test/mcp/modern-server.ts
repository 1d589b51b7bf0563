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
  server.registerTool("paint", {}, (ctx): CallToolResult | InputRequiredResult => {
    const { inputResponses } = ctx.mcpReq;
    const answer = inputResponse(inputResponses, "colour");
    if (answer.kind === "elicit" && answer.action !== "accept") return said(`not painted: ${answer.action}`);
    const chosen = acceptedContent(inputResponses, "colour", Colour);
    if (chosen !== undefined) return said(`painted ${chosen.colour}`);
    const colour = inputRequired.elicit({ message: "Which colour?", requestedSchema: Colour });
    return inputRequired({ inputRequests: { colour } });
  });
  return server;
}
