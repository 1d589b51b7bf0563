import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { link, rm } from "node:fs/promises";
import { join } from "node:path";
import { RuntimeError } from "../../contract/error.ts";
import { Token, TokenName } from "../../contract/token.ts";
import { isErrno } from "./realm.ts";

/** The tokens of a realm: a file each, so that two processes that change them never write the same one. */
export interface TokenFiles {
  /** Whether tokens were ever made here: from then on, nobody is let in without one. */
  isInUse(): boolean;
  /** Those that can be read, by name; `warn` is told of a file that cannot be. */
  read(): readonly Token[];
  /** Something that is another whenever a token was made or taken away; undefined where that cannot be told yet. */
  state(nowMs: number): string | undefined;
  /** Keeps a new token and returns its secret, which is nowhere afterwards; throws INVALID_PARAMS for a name that is taken. */
  create(token: Omit<Token, "sha256">): Promise<string>;
  /** Takes a token away; throws INVALID_PARAMS where there is none of the name. */
  revoke(name: string): void;
}

const FOLDER = "tokens";
const SUFFIX = ".json";
const TOKENS_MAX = 256;
const SECRET_BYTES = 32;
/** A folder's time may stand still for a moment while it changes: only an older one says that nothing has. */
const SETTLED_MS = 2_000;

export function openTokenFiles(stateFolder: string, warn: (sentence: string) => void = () => {}): TokenFiles {
  const folder = join(stateFolder, FOLDER);
  const pathOf = (name: string): string => join(folder, `${requireName(name)}${SUFFIX}`);
  const names = (): readonly string[] => {
    try {
      return readdirSync(folder)
        .filter((file) => file.endsWith(SUFFIX))
        .map((file) => file.slice(0, -SUFFIX.length))
        .filter((name) => TokenName.safeParse(name).success)
        .sort();
    } catch (thrown) {
      if (isErrno(thrown) && ["ENOENT", "ENOTDIR"].includes(thrown.code ?? "")) return [];
      throw thrown;
    }
  };
  return {
    isInUse: () => statSync(folder, { throwIfNoEntry: false }) !== undefined,
    read: () =>
      names().flatMap((name) => {
        const token = readToken(pathOf(name), name);
        if (token === undefined) warn(`the file of token ${name} cannot be read, so nobody is let in by it; revoke it`);
        return token ?? [];
      }),
    state: (nowMs) => {
      const stat = statSync(folder, { throwIfNoEntry: false, bigint: true });
      if (stat === undefined) return "none";
      const isSettled = nowMs - Number(stat.mtimeMs) > SETTLED_MS;
      return isSettled ? `${stat.ino}:${stat.mtimeNs}` : undefined;
    },
    create: async ({ name, ...token }) => {
      const path = pathOf(name);
      if (names().length >= TOKENS_MAX) {
        throw new RuntimeError("INVALID_PARAMS", `there are ${TOKENS_MAX} tokens, the limit; revoke one first`);
      }
      const secret = `rkat_${randomBytes(SECRET_BYTES).toString("base64url")}`;
      const kept: Token = { name, sha256: digestOf(secret).toString("hex"), ...token };
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const beside = join(folder, `.${name}.${randomBytes(8).toString("hex")}.new`);
      try {
        writeFileSync(beside, `${JSON.stringify(kept)}\n`, { mode: 0o600, flag: "wx" });
        // Whole or not at all, and never in the place of another.
        await link(beside, path);
        return secret;
      } catch (cause) {
        if (!isErrno(cause) || cause.code !== "EEXIST") throw cause;
        throw new RuntimeError("INVALID_PARAMS", `--name ${name}: there is such a token; revoke it first`, { cause });
      } finally {
        await rm(beside, { force: true });
      }
    },
    revoke: (name) => {
      const path = pathOf(name);
      if (statSync(path, { throwIfNoEntry: false }) === undefined) {
        const known = names().join(", ");
        const hint = known === "" ? "there are none" : `there are ${known}`;
        throw new RuntimeError("INVALID_PARAMS", `there is no token ${name}; ${hint}`);
      }
      rmSync(path, { force: true });
    },
  };
}

/** Of a random secret of 256 bits a plain hash is enough: there is nothing to guess that a slow one would protect. */
export function digestOf(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

function requireName(name: string): string {
  const parsed = TokenName.safeParse(name);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new RuntimeError("INVALID_PARAMS", `${JSON.stringify(name)} cannot name a token: ${issue?.message}`);
}

/** Undefined for a file that is none, is another's, or went away meanwhile: a token nobody can read lets nobody in. */
function readToken(path: string, name: string): Token | undefined {
  try {
    const parsed = Token.safeParse(JSON.parse(readFileSync(path, "utf8")));
    return parsed.success && parsed.data.name === name ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}
