// Serves the page, and hands what it asks of `/ui` on to a server of rkat, as a bundler's own server does while you develop.
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { rolldown } from "rolldown";

const PAGE =
  '<!doctype html><html lang="en"><title>A chat</title><div id="root"></div><script type="module" src="/page.js"></script></html>';

export interface ChatPage {
  readonly url: string;
  close(): void;
}

/** Serves the page on a free port of this machine; `rkatUrl` is where `rkat serve` listens. */
export async function serveChatPage(rkatUrl: string): Promise<ChatPage> {
  const script = await bundle();
  const server = createServer((asked, response) => {
    if (asked.url?.startsWith("/ui/")) return handOn(rkatUrl, asked, response);
    const isScript = asked.url === "/page.js";
    response.writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html" });
    response.end(isScript ? script : PAGE);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A listening server has an address of this shape.
  const { port } = server.address() as AddressInfo;
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${port}/`, close };
}

async function bundle(): Promise<string> {
  const input = join(import.meta.dirname, "page.jsx");
  const defined = { "process.env.NODE_ENV": '"production"' };
  const made = await rolldown({ input, platform: "browser", logLevel: "silent", transform: { define: defined } });
  const { output } = await made.generate({ format: "esm", codeSplitting: false });
  await made.close();
  return output[0].code;
}

function handOn(rkatUrl: string, asked: IncomingMessage, response: ServerResponse): void {
  const { method, headers } = asked;
  const onward = request(new URL(asked.url ?? "/", rkatUrl), { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
    answer.on("error", () => response.destroy());
  });
  onward.on("error", () => response.destroy());
  // A page that leaves leaves its turn, too.
  response.on("close", () => onward.destroy());
  asked.pipe(onward);
}
