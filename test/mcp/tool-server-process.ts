import { appendFileSync } from "node:fs";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { createToolServer } from "./tool-server.ts";

// How it behaves, then the file that is told its pid and what happens in it.
const [, , mode = "serve", notes] = process.argv;
const note = (word: string): void => {
  if (notes !== undefined) appendFileSync(notes, `${word}\n`);
};
note(`pid ${process.pid}`);
const keepRunning = () => setInterval(() => {}, 60_000);

switch (mode) {
  case "crash":
    process.stderr.write(`Error: cannot find ${process.env.SECRET_PLACE ?? "the database"}\n    at main\n`);
    process.exit(1);
    break;
  case "hang":
    process.on("SIGTERM", () => {});
    keepRunning();
    break;
  default: {
    if (mode === "stubborn") {
      process.on("SIGTERM", () => {});
      keepRunning();
    }
    process.stdout.write("Welcome! This line is no message.\n");
    const world = { env: process.env, pid: process.pid, exit: (code: number) => process.exit(code), note };
    const transport = new StdioServerTransport();
    await createToolServer(world).connect(transport);
    const receive = transport.onmessage;
    transport.onmessage = (message) => {
      const isUnknown = "method" in message && message.method === "server/discover";
      if (isUnknown && mode === "strict") process.exit(1);
      if (!isUnknown || mode !== "mute") receive?.(message);
    };
  }
}
