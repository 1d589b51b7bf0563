import { type ChildProcess, spawn } from "node:child_process";
import { ReadBuffer, serializeMessage } from "@modelcontextprotocol/sdk/shared/stdio.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { Clock } from "../../ports/clock.ts";
import { createOutputTail } from "../shell/output-tail.ts";
import { signalGroup } from "../shell/process-group.ts";

export interface ServerProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly folder: string;
}

export interface ChildTransport extends Transport {
  /** How the program ended and what it said last; undefined while it runs. */
  ending(): string | undefined;
}

const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;
const STDERR_CHARS_MAX = 2_000;
/** A server ends with its input; one that does not is told to, and then made to. Less than a door waits for a close. */
const INPUT_GRACE_MS = 400;
const TERMINATION_GRACE_MS = 300;
/** How long output may still arrive after the program has exited. */
const DRAIN_MS = 200;

/**
 * A program spoken with on its stdin and stdout. It has a process group of its own: what a launcher such as `npx`
 * started ends with it, and a Ctrl-C that interrupts a turn does not reach it.
 */
export function createChildTransport(program: ServerProgram, clock: Clock): ChildTransport {
  const stderr = createOutputTail(STDERR_CHARS_MAX);
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  let child: ChildProcess | undefined;
  let ending: string | undefined;

  const finish = (how: string): void => {
    if (ending !== undefined) return;
    const said = lineThatTells(stderr.read().text);
    ending = said === "" ? how : `${how} and said "${said}"`;
    end();
    transport.onclose?.();
  };
  const endedWithin = async (ms: number): Promise<void> => {
    const done = new AbortController();
    await Promise.race([ended, clock.sleep(ms, done.signal)]);
    done.abort("done");
  };
  const listen = (running: ChildProcess): void => {
    const buffer = new ReadBuffer({ maxBufferSize: MESSAGE_BYTES_MAX });
    running.stdout?.on("data", (bytes: Buffer) => {
      try {
        buffer.append(bytes);
      } catch {
        finish(`it sent more than ${MESSAGE_BYTES_MAX} bytes in one message`);
        signalGroup(running, "SIGKILL");
        return;
      }
      readMessages(buffer, transport);
    });
    running.stderr?.on("data", (bytes: Buffer) => stderr.push(bytes));
    // Unheard, a broken pipe would end the whole runtime; the program's end is all that matters here.
    for (const stream of running.stdio) stream?.on("error", () => {});
    running.once("exit", (code, signal) => {
      signalGroup(running, "SIGKILL"); // What it started must not outlive it, nor hold its pipes.
      const how = code === null ? `it was ended by ${signal}` : `it ended with exit code ${code}`;
      running.once("close", () => finish(how));
      void endedWithin(DRAIN_MS).then(() => finish(how));
    });
  };

  const transport: ChildTransport = {
    ending: () => ending,
    start: () =>
      new Promise((resolve, reject) => {
        const { command, args, env, folder } = program;
        child = spawn(command, [...args], { cwd: folder, env, stdio: ["pipe", "pipe", "pipe"], detached: true });
        listen(child);
        child.once("spawn", resolve);
        child.once("error", (error: NodeJS.ErrnoException) => {
          const how = error.code === "ENOENT" ? `its command ${command} was not found` : error.message;
          finish(how);
          reject(new Error(how));
        });
      }),
    send: (message) =>
      new Promise((resolve, reject) => {
        if (ending !== undefined || child?.stdin?.writable !== true) return reject(new Error(ending ?? "it has ended"));
        child.stdin.write(serializeMessage(message), (error) => (error ? reject(error) : resolve()));
      }),
    close: async () => {
      if (child === undefined || ending !== undefined) return;
      child.stdin?.end();
      await endedWithin(INPUT_GRACE_MS);
      if (ending === undefined) signalGroup(child, "SIGTERM");
      await endedWithin(TERMINATION_GRACE_MS);
      if (ending === undefined) signalGroup(child, "SIGKILL");
      await endedWithin(DRAIN_MS);
    },
  };
  return transport;
}

function readMessages(buffer: ReadBuffer, transport: Transport): void {
  // Each pass takes a line out of the buffer, which is bounded.
  for (;;) {
    try {
      const message = buffer.readMessage();
      if (message === null) return;
      transport.onmessage?.(message);
    } catch {
      // A line that is no message: many programs greet on stdout.
    }
  }
}

const LINE_CHARS_MAX = 200;

/** The last line that speaks of an error, else the last: a stack trace ends in what helps nobody, and so does npm. */
function lineThatTells(said: string): string {
  const lines = said.split("\n").map((line) => line.replaceAll(/\p{Cc}+/gu, " ").trim());
  const told = lines.findLast((line) => /error(?!.*complete log)/i.test(line)) ?? lines.findLast((line) => line !== "");
  return told?.slice(0, LINE_CHARS_MAX) ?? "";
}
