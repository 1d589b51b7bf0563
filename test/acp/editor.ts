import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { promisify } from "node:util";
import {
  type ClientCapabilities,
  client,
  ndJsonStream,
  type RequestPermissionRequest,
  type SessionUpdate,
} from "@agentclientprotocol/sdk";
import { chatFrames, type Reply } from "@rkat/conformance/model-server";

const CLI = join(import.meta.dirname, "../../packages/rkat/dist/cli.js");

/** What the model is asked: the texts of its messages, the last one last. */
export type Script = (asked: { readonly texts: readonly string[]; readonly body: string }) => Reply;

export const said = (...text: string[]): Reply & { kind: "answer" } => ({
  kind: "answer",
  text,
  usage: { input: 100, output: 10 },
});
export const called = (id: string, name: string, args: object): Reply & { kind: "answer" } => ({
  kind: "answer",
  calls: [{ id, name, args }],
  usage: { input: 100, output: 10 },
});

/** A user's home and a project, with a model on this machine that answers by a script. */
export async function openStage(script: Script, config = "") {
  const home = mkdtempSync(join(tmpdir(), "rkat-acp-"));
  const project = join(home, "project");
  mkdirSync(project);
  mkdirSync(join(home, ".rkat"));
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { messages } = JSON.parse(body) as { messages: readonly { content: unknown }[] };
    const texts = messages.map(({ content }) => (typeof content === "string" ? content : JSON.stringify(content)));
    const reply = script({ texts, body });
    if (reply.kind === "refusal") {
      response.writeHead(503).end();
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const frame of chatFrames("scripted", reply)) response.write(frame);
    if (reply.kind === "answer") response.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // A server that listens on a port has an address of this shape.
  writeFileSync(
    join(home, ".rkat/config.toml"),
    `[agent]\nmodel = "scripted"\n[memory]\nembedder = "hashing"\n${config}
[self_hosted.servers.local]\nbase_url = "http://127.0.0.1:${port}/v1"
[self_hosted.models.scripted]\nserver = "local"\ncontext_window = 20000
[self_hosted.models.another]\nserver = "local"\ncontext_window = 20000\n`,
  );
  return {
    home,
    project,
    env: { PATH: process.env.PATH ?? "", HOME: home },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
      rmSync(home, { recursive: true });
    },
  };
}

export type Stage = Awaited<ReturnType<typeof openStage>>;

/** A session that was made by a command, not by an editor. */
export async function madeByCommand(stage: Stage, ...flags: readonly string[]): Promise<string> {
  const words = [CLI, "run", "Hello!", "--json", ...flags];
  const made = promisify(execFile)(process.execPath, words, { cwd: stage.project, env: stage.env });
  made.child.stdin?.end();
  const { stdout } = await made;
  return (JSON.parse(stdout) as { session_id: string }).session_id; // What the command prints is a result of a turn.
}

interface EditorOptions {
  readonly capabilities?: ClientCapabilities;
  /** The option it takes of a question, or undefined when it leaves the question open. */
  readonly answer?: (asked: RequestPermissionRequest) => string | undefined;
  readonly cwd?: string;
  /** Methods that it never answers. */
  readonly silent?: readonly string[];
  /** What it answers to methods instead of what it should. */
  readonly junk?: Readonly<Record<string, unknown>>;
}

/** An editor: the real process, spoken with by the SDK's own client over pipes. */
export async function openEditor(stage: Stage, options: EditorOptions = {}) {
  const child = spawn(process.execPath, [CLI, "acp"], { cwd: options.cwd ?? stage.project, env: stage.env });
  let stderr = "";
  child.stderr.on("data", (data) => {
    stderr += data;
  });
  const updates: { sessionId: string; update: SessionUpdate }[] = [];
  const asked: RequestPermissionRequest[] = [];
  const files = new Map<string, string>();
  const commands: string[] = [];
  const read: string[] = [];
  const waiting = new Set<() => void>();
  const received = (): void => {
    for (const wake of waiting) wake();
  };
  const released: string[] = [];
  /** The answer of a well-behaved editor, unless this one is none. */
  const answerTo = <T>(method: string, answer: () => T): T | Promise<T> => {
    if (options.silent?.includes(method)) return new Promise<T>(() => {});
    return method in (options.junk ?? {}) ? (options.junk?.[method] as T) : answer(); // Junk is of no type.
  };
  const app = client({ name: "test" })
    .onNotification("session/update", ({ params }) => {
      updates.push(params);
      received();
    })
    .onRequest("session/request_permission", async ({ params, signal }) => {
      asked.push(params);
      received();
      if (options.silent?.includes("session/request_permission")) return new Promise(() => {});
      if (options.junk !== undefined) return answerTo("session/request_permission", () => Object({}));
      const optionId = options.answer?.(params);
      if (optionId !== undefined) return { outcome: { outcome: "selected", optionId } };
      await new Promise<void>((done) => signal.addEventListener("abort", () => done(), { once: true }));
      return { outcome: { outcome: "cancelled" } };
    })
    .onRequest("fs/read_text_file", ({ params }) => {
      read.push(params.path);
      received();
      return answerTo("fs/read_text_file", () => ({ content: files.get(params.path) ?? "" }));
    })
    .onRequest("fs/write_text_file", ({ params }) => {
      files.set(params.path, params.content);
      return {};
    })
    .onRequest("terminal/create", ({ params }) => {
      commands.push([params.command, ...(params.args ?? [])].join(" "));
      received();
      return answerTo("terminal/create", () => ({ terminalId: "terminal-1" }));
    })
    .onRequest("terminal/wait_for_exit", () => answerTo("terminal/wait_for_exit", () => ({ exitCode: 0 })))
    .onRequest("terminal/output", () => ({ output: "from the terminal", truncated: false }))
    .onRequest("terminal/kill", () => ({}))
    .onRequest("terminal/release", ({ params }) => {
      released.push(params.terminalId);
      received();
      return {};
    });
  // Node's streams of the web are those of the platform.
  const stream = ndJsonStream(
    Writable.toWeb(child.stdin) as WritableStream<Uint8Array>,
    Readable.toWeb(child.stdout) as unknown as ReadableStream<Uint8Array>,
  );
  const connection = app.connect(stream);
  const { agent } = connection;
  const clientCapabilities = { session: { compaction: {}, notices: {} }, ...options.capabilities };
  const hello = await agent.request("initialize", { protocolVersion: 1, clientCapabilities });
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) {
      await new Promise<void>((wake) => {
        waiting.add(wake);
        if (isSo()) wake();
      });
    }
  };
  return {
    agent,
    hello,
    updates,
    asked,
    files,
    commands,
    read,
    released,
    until,
    /** Sends what is no message of the protocol's. */
    write: (line: string) => new Promise<void>((done) => child.stdin.write(`${line}\n`, () => done())),
    /** Ends it as a crash does. */
    kill: async () => {
      const ended = once(child, "close");
      child.kill("SIGKILL");
      await ended;
      connection.close();
    },
    stderr: () => stderr,
    of: <K extends SessionUpdate["sessionUpdate"]>(kind: K) =>
      updates.flatMap(({ update }) =>
        update.sessionUpdate === kind ? [update as Extract<SessionUpdate, { sessionUpdate: K }>] : [],
      ),
    /** The agent's words so far. */
    words: () =>
      updates
        .flatMap(({ update }) =>
          update.sessionUpdate === "agent_message_chunk" && update.content.type === "text" ? [update.content.text] : [],
        )
        .join(""),
    create: async () => {
      const created = await agent.request("session/new", { cwd: stage.project, mcpServers: [] });
      return created.sessionId;
    },
    prompt: (sessionId: string, text: string) =>
      agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] }),
    close: async () => {
      const ended = once(child, "close");
      child.stdin.end();
      await ended;
      connection.close();
      return child.exitCode;
    },
  };
}
