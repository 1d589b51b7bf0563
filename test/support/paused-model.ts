import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach } from "vitest";

/** A model that begins to tell and goes on when it is told to, for the tests of one block. */
export interface PausedModel {
  /** The answers that have begun. */
  readonly asked: readonly ServerResponse[];
  /** What a server is started with so that this model answers it. */
  env(): { readonly OPENAI_BASE_URL: string; readonly OPENAI_API_KEY: string; readonly RKAT_MODEL: string };
  /** Tells the rest of these answers; without a word of all, also of those that are still to begin. */
  finish(answers?: readonly (ServerResponse | undefined)[]): void;
}

const END = { id: "1", choices: [{ index: 0, delta: { content: " a time." }, finish_reason: "stop" }] };
const REST = `data: ${JSON.stringify(END)}\n\ndata: [DONE]\n\n`;

export function usePausedModel(): PausedModel {
  let model: Server;
  let asked: ServerResponse[] = [];
  let isFinished = false;
  beforeEach(async () => {
    asked = [];
    isFinished = false;
    model = createServer((request, response) => {
      request.resume();
      response.writeHead(200, { "content-type": "text/event-stream" });
      const delta = { role: "assistant", content: "Once upon" };
      response.write(`data: ${JSON.stringify({ id: "1", choices: [{ index: 0, delta }] })}\n\n`);
      asked.push(response);
      // A session runs before its model is asked: whoever saw it run may have let it finish by now.
      if (isFinished) response.end(REST);
    });
    await new Promise<void>((resolve) => model.listen(0, "127.0.0.1", resolve));
  });
  afterEach(() => {
    model.closeAllConnections();
    model.close();
  });
  return {
    get asked() {
      return asked;
    },
    env: () => ({
      // A listening server has an address of this shape.
      OPENAI_BASE_URL: `http://127.0.0.1:${(model.address() as AddressInfo).port}`,
      OPENAI_API_KEY: "sk-test",
      RKAT_MODEL: "openai/m",
    }),
    finish: (answers) => {
      isFinished ||= answers === undefined;
      for (const response of answers ?? asked) response?.end(REST);
    },
  };
}
