import { hash, randomBytes } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { invalid } from "@rkat/core/contract/error";
import { type Seal, SHARED_OWNERS } from "@rkat/core/ports/store";
import type { McpAddress, McpLogins } from "@rkat/core/ports/tool";
import { isErrno } from "./config/realm.ts";
import { replaceFile } from "./log/whole-file.ts";

const FOLDER = "mcp-logins";

/** Logins as files of a state folder, sealed where it is. A server that has moved to another address has none. */
export function createLoginFiles(stateFolder: string, seal: Seal | undefined): McpLogins {
  const fileOf = ({ name, url }: McpAddress): string => hash("sha256", `${name}\0${url}`);
  const write = (server: McpAddress, login: string | undefined): void => {
    const file = fileOf(server);
    const path = join(stateFolder, FOLDER, file);
    const sealed = seal?.seal(SHARED_OWNERS.logins, Buffer.from(login ?? ""), Buffer.from(file));
    if (login === undefined) rmSync(path, { force: true });
    else replaceFile(path, sealed === undefined ? login : Buffer.from(sealed).toString("base64"));
  };
  return {
    read: (server) => {
      const file = fileOf(server);
      const kept = readIfThere(join(stateFolder, FOLDER, file));
      const isPlain = kept?.startsWith("{");
      if (kept === undefined || seal === undefined) return isPlain ? kept : undefined;
      if (!isPlain)
        return Buffer.from(seal.open(SHARED_OWNERS.logins, Buffer.from(kept, "base64"), Buffer.from(file))).toString();
      write(server, kept); // The folder has been encrypted since.
      return kept;
    },
    write,
  };
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (thrown) {
    if (isErrno(thrown) && thrown.code === "ENOENT") return undefined;
    throw thrown;
  }
}

interface LoginOptions {
  readonly logins: McpLogins;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  show(url: string): void;
  /** What the person pastes, an address or a code; rejects or never resolves if nothing is pasted. */
  paste(signal: AbortSignal): Promise<string>;
}

const LOGIN_MS_MAX = 10 * 60_000;

/** Logs in at a server: the browser comes back to a port of this machine, or the person pastes where it ended. */
export async function logInAt(
  server: McpAddress,
  { logins, env, signal, show, paste }: LoginOptions,
): Promise<boolean> {
  const state = randomBytes(16).toString("base64url");
  const over = new AbortController();
  const until = AbortSignal.any([over.signal, signal, AbortSignal.timeout(LOGIN_MS_MAX)]);
  const { promise: returned, resolve, reject } = Promise.withResolvers<URLSearchParams>();
  returned.catch(() => {}); // It may fail before it is waited for.
  until.addEventListener("abort", () => reject(new Error("no one logged in in time")));
  const listener = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://127.0.0.1");
    const isOurs = pathname === "/callback" && searchParams.get("state") === state;
    response.writeHead(isOurs ? 200 : 404, { "Content-Type": "text/plain", Connection: "close" });
    response.end(isOurs ? "You can close this page and return to the terminal.\n" : "Not found.\n");
    if (isOurs) resolve(searchParams);
  });
  await new Promise<void>((listening) => listener.listen(0, "127.0.0.1", listening));
  const { port } = listener.address() as AddressInfo; // A server that listens on a port has one.
  const showAndRead = (url: URL): void => {
    show(url.href);
    void paste(until).then(
      (line) => {
        const pasted = readPasted(line, state);
        if (typeof pasted === "string") reject(invalid(pasted));
        else resolve(pasted);
      },
      () => {}, // Then the browser may still come back.
    );
  };
  try {
    const { logIn } = await import("@rkat/core/tools/mcp/login");
    const redirectUrl = `http://127.0.0.1:${port}/callback`;
    return await logIn(server, logins, { redirectUrl, state, show: showAndRead, answer: () => returned }, env);
  } finally {
    over.abort("done");
    listener.closeAllConnections();
    listener.close();
  }
}

/** What the authorization server said, of an address or a code alone; a sentence where it is of another login. */
function readPasted(line: string, state: string): URLSearchParams | string {
  const text = line.trim();
  if (!/^https?:/.test(text)) return new URLSearchParams({ code: text });
  const url = URL.parse(text);
  if (url?.searchParams.get("state") === state) return url.searchParams;
  return "this address is not that of the login that was started; start again and paste the one the browser ended at";
}
