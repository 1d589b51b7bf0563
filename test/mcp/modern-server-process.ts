import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createModernServer } from "./modern-server.ts";

const shown = { description: "says it again", learned: [] };
serveStdio(
  () =>
    createModernServer(shown, (server) => {
      server.registerTool(shown.learned.at(-1) ?? "", {}, () => ({ content: [{ type: "text", text: "learned" }] }));
    }),
  { legacy: "reject" },
);
