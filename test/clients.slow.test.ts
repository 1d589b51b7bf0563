import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { connect } from "@rkat/client";
import { openServedRuntime } from "./clients/served-runtime.ts";
import { type ClientWay, describeClient } from "./contract/client.ts";
import { describeSessionMethods } from "./contract/session-methods.ts";

const SERVER = join(import.meta.dirname, "clients/serving-process.ts");

const inProcess: ClientWay = {
  name: "in-process",
  hasTools: true,
  open: async (kind = "kept") => {
    const runtime = openServedRuntime(kind);
    return { client: await connect({ runtime }), close: () => runtime.close() };
  },
};

const overStdio: ClientWay = {
  name: "over stdio",
  hasTools: true,
  death: /^\S*node.* ended with exit code 7; its output: the last words$/,
  open: async (kind = "kept") => {
    const client = await connect({ command: process.execPath, args: [SERVER, "rpc", kind] });
    return { client, close: client.close };
  },
};

const overHttp: ClientWay = {
  name: "over HTTP",
  hasTools: false,
  death: /^cannot reach http:\/\/127\.0\.0\.1:\d+: /,
  open: async (kind = "kept") => {
    const child = spawn(process.execPath, [SERVER, "rest", kind], { stdio: ["pipe", "pipe", "ignore"] });
    const [line] = await once(child.stdout, "data");
    const client = await connect({ url: JSON.parse(String(line)).url });
    const close = async (): Promise<void> => {
      await client.close();
      child.kill("SIGKILL");
    };
    return { client, close };
  },
};

for (const way of [inProcess, overStdio, overHttp]) {
  describeClient(way);
  describeSessionMethods(way);
}
