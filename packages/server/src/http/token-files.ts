import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { link, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { Token, TokenName } from "@rkat/core/contract/caller";
import { invalid } from "@rkat/core/contract/error";
import type { TokenStore } from "@rkat/core/ports/store";
import { isErrno } from "@rkat/node/config/realm";

export type OpenDatabaseTokens = (
  realm: { readonly url: string; readonly realm: string },
  store: Config["store"],
) => Promise<TokenStore>;

/** The tokens of a realm, where the realm is; those that a folder has of a realm in a database move there. */
export async function openTokens(
  stateFolder: string,
  { config, realm, warn }: { readonly config: Config; readonly realm: string; readonly warn: Warn },
  openDatabase: OpenDatabaseTokens,
): Promise<TokenStore> {
  const files = openTokenFiles(stateFolder, warn);
  const { url } = config.store;
  if (url === undefined || !config.features.includes("session-store")) return files;
  const store = await openDatabase({ url, realm }, config.store);
  for (const token of files.read()) {
    if (await store.add(token)) await files.remove(token.name);
    else
      warn(`token ${token.name} of ${stateFolder} is not accepted: the realm has another of that name in its database`);
  }
  return store;
}

/** Stores a new token and returns its secret, which is not stored; throws INVALID_PARAMS for a taken name. */
export async function createToken(store: TokenStore, { name, ...token }: Omit<Token, "sha256">): Promise<string> {
  requireName(name);
  if (store.read().length >= TOKENS_MAX) throw invalid(`there are ${TOKENS_MAX} tokens, the limit; revoke one first`);
  const secret = newSecret();
  if (await store.add({ name, sha256: digestOf(secret).toString("hex"), ...token })) return secret;
  throw invalid(`--name ${name}: there is such a token; revoke it first`);
}

export function newSecret(): string {
  return `rkat_${randomBytes(SECRET_BYTES).toString("base64url")}`;
}

/** Revokes a token; throws INVALID_PARAMS for an unknown name. */
export async function revokeToken(store: TokenStore, name: string): Promise<void> {
  if (await store.remove(requireName(name))) return;
  const known = store.read().map((token) => token.name);
  const hint = known.length === 0 ? "there are none" : `there are ${known.join(", ")}`;
  throw invalid(`there is no token ${name}; ${hint}`);
}

type Warn = (sentence: string) => void;

const FOLDER = "tokens";
const SUFFIX = ".json";
const TOKENS_MAX = 256;
const SECRET_BYTES = 32;
/** A folder's time may stand still for a moment while it changes: only an older one says that nothing has. */
const SETTLED_MS = 2_000;

/** Tokens in a state folder: a file each, so that two processes that change them never write the same one. */
export function openTokenFiles(stateFolder: string, warn: Warn = () => {}): TokenStore {
  const folder = join(stateFolder, FOLDER);
  const pathOf = (name: string): string => join(folder, `${name}${SUFFIX}`);
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
        if (token === undefined) warn(`the file of token ${name} cannot be read, so it is not accepted; revoke it`);
        return token ?? [];
      }),
    state: (nowMs) => {
      const stat = statSync(folder, { throwIfNoEntry: false, bigint: true });
      if (stat === undefined) return "none";
      const isSettled = nowMs - Number(stat.mtimeMs) > SETTLED_MS;
      return isSettled ? `${stat.ino}:${stat.mtimeNs}` : undefined;
    },
    add: async (token) => {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const beside = join(folder, `.${token.name}.${randomBytes(8).toString("hex")}.new`);
      try {
        writeFileSync(beside, `${JSON.stringify(token)}\n`, { mode: 0o600, flag: "wx" });
        // Whole or not at all, and never in the place of another.
        await link(beside, pathOf(token.name));
        return true;
      } catch (cause) {
        if (!isErrno(cause) || cause.code !== "EEXIST") throw cause;
        return false;
      } finally {
        await rm(beside, { force: true });
      }
    },
    remove: async (name) => {
      if (statSync(pathOf(name), { throwIfNoEntry: false }) === undefined) return false;
      rmSync(pathOf(name), { force: true });
      return true;
    },
    close: async () => {},
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
  throw invalid(`${JSON.stringify(name)} cannot name a token: ${issue?.message}`);
}

/** Undefined for a file that is invalid, belongs to another user, or was deleted: such a token is not accepted. */
function readToken(path: string, name: string): Token | undefined {
  try {
    const parsed = Token.safeParse(JSON.parse(readFileSync(path, "utf8")));
    return parsed.success && parsed.data.name === name ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}
