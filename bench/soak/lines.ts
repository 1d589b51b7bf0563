import type { ChildProcessWithoutNullStreams } from "node:child_process";
import type { Fields } from "@rkat/conformance/driver";
import { isRecord } from "@rkat/core/contract/json";

/** What a request rejects with when its server has gone away. */
export class Gone extends Error {}

/** A JSON-RPC peer behind a process, an object a line. */
export interface Link {
  request(method: string, params: unknown): Promise<Fields>;
  notify(method: string, params: unknown): void;
  /** Writes a request as it is; its id stands in it as `ID`. */
  raw(text: string): Promise<Fields>;
}

/** What nobody asked for, such as an event, is counted and let go. */
export function linkTo(child: ChildProcessWithoutNullStreams): Link {
  const waiting = new Map<number, { resolve(frame: Fields): void; reject(gone: Gone): void }>();
  /** Requests that are no JSON: nobody can read their ids, so each answer without one is the oldest's. */
  const illegible: number[] = [];
  let id = 0;
  let rest: string[] = [];
  child.stdin.on("error", () => {}); // Its end is told.
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (text: string) => {
    const lines = text.split("\n");
    // Joined once a line is whole: a long one comes in thousands of pieces.
    rest.push(lines[0] ?? "");
    if (lines.length === 1) return;
    take(rest.join(""));
    for (const line of lines.slice(1, -1)) take(line);
    rest = [lines.at(-1) ?? ""];
  });
  child.once("exit", () => {
    for (const { reject } of waiting.values()) reject(new Gone("the server went away"));
    waiting.clear();
  });
  const take = (line: string): void => {
    const frame: unknown = JSON.parse(line);
    if (!isRecord(frame) || "method" in frame) return;
    const own = frame.id === null ? illegible.shift() : frame.id;
    if (typeof own !== "number") return;
    waiting.get(own)?.resolve(frame);
    waiting.delete(own);
  };
  const send = (write: (id: number) => string): Promise<Fields> =>
    new Promise((resolve, reject) => {
      if (child.exitCode !== null || child.signalCode !== null) return reject(new Gone("the server has gone"));
      id += 1;
      waiting.set(id, { resolve, reject });
      const line = write(id);
      if (!isJson(line)) illegible.push(id);
      child.stdin.write(`${line}\n`);
    });
  return {
    request: (method, params) => send((own) => JSON.stringify({ jsonrpc: "2.0", id: own, method, params })),
    notify: (method, params) => void child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method, params })}\n`),
    raw: (text) => send((own) => text.replace("ID", String(own))),
  };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
