import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { findLocalServers } from "@rkat/core/providers/local-servers";
import { providerStatus } from "@rkat/core/providers/provider-settings";
import { createModelResolver } from "@rkat/core/providers/resolve";
import type { Io, Terminal } from "rkat/io";
import type { Parts } from "rkat/parts";
import { afterEach } from "vitest";
import { NO_INPUT } from "./command-line.ts";

/** An Ollama with these models, which answers every prompt with one sentence; closed after each test. */
export function useOllama() {
  const open: (() => void)[] = [];
  afterEach(() => {
    for (const close of open.splice(0)) close();
  });
  return async (models: readonly object[]) => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      if (request.url === "/api/tags") return response.end(JSON.stringify({ models }));
      let body = "";
      request.on("data", (data) => {
        body += data;
      });
      request.on("end", () => {
        asked.push(String(JSON.parse(body).model));
        const delta = { choices: [{ index: 0, delta: { content: "Served locally." }, finish_reason: "stop" }] };
        response.setHeader("content-type", "text/event-stream");
        response.end(`data: ${JSON.stringify(delta)}\n\ndata: [DONE]\n\n`);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    open.push(() => {
      server.closeAllConnections();
      server.close();
    });
    // It listens on a port.
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
  };
}

/** The parts that look at models, as the real command has them. */
export function modelParts(env: Io["env"]): Pick<Parts, "inspectModels" | "findLocalServers"> {
  return {
    inspectModels: async (config) => {
      const settings = { ...config, defaultModel: config.agent.model, defaultProvider: config.agent.provider };
      return {
        providers: providerStatus(env, settings),
        chooseDefault: () => createModelResolver({ env, config: settings }).resolve(undefined, undefined),
      };
    },
    findLocalServers: (signal) => findLocalServers({ env, signal, usual: [] }),
  };
}

/** A terminal at which each question is answered by the next of these; undefined is the end of the input. */
export function answering(...answers: readonly (string | undefined)[]): Io["stdin"] {
  const left = [...answers];
  const terminal = (): Terminal => {
    const input = new PassThrough();
    const answer = left.shift();
    if (answer === undefined) input.end();
    else input.write(`${answer}\n`);
    const output = Object.assign(new PassThrough(), { columns: 80, isTTY: true });
    // An editor needs no more of a terminal than these.
    return { input, output } as unknown as Terminal;
  };
  return { ...NO_INPUT, kind: "terminal", terminal };
}
