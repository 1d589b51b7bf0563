import { REALM_ID } from "../contract/config.ts";
import { z } from "../contract/schema.ts";
import { common, flag, oneOf, text, variableName, wait, whole } from "./values.ts";

const EXAMPLE = "postgres://rkat@db.example.com/rkat";
const SSL_MODES = ["disable", "prefer", "require", "verify-full"];
const SESSION_ATTRIBUTES = ["read-write", "read-only", "primary", "standby", "prefer-standby"];
/** Of one process; a server that wants more has more to gain from a second one. */
const POOL_MAX = 1_000;

/** Says what to write instead of an address that names no database; undefined when it names one. */
function faultOf(url: string): string | undefined {
  const encoded = `write an address like ${EXAMPLE}, with its signs percent-encoded`;
  if (!URL.canParse(url)) return encoded;
  const { protocol, hostname, username, password, searchParams } = new URL(url);
  if (!/^postgres(?:ql)?:$/.test(protocol)) return `write an address of PostgreSQL, like ${EXAMPLE}`;
  if (!isEncoded(username) || !isEncoded(password)) return encoded;
  if (hostname === "") return `write the host, too, like ${EXAMPLE}`;
  if (searchParams.has("password") || searchParams.has("user")) {
    return "write user and password before the host, or in PGUSER and PGPASSWORD";
  }
  const mode = searchParams.get("sslmode");
  if (mode !== null && !SSL_MODES.includes(mode)) return `write ?sslmode= with one of ${SSL_MODES.join(", ")}`;
  const attributes = searchParams.get("target_session_attrs");
  if (attributes !== null && !SESSION_ATTRIBUTES.includes(attributes)) {
    return `write ?target_session_attrs= with one of ${SESSION_ATTRIBUTES.join(", ")}`;
  }
  return undefined;
}

/** A `%` that stands for itself is written `%25`. */
function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

const databaseUrl = z.string({ error: "write an address in quotes" }).superRefine((url, { addIssue }) => {
  const fault = faultOf(url);
  if (fault !== undefined) addIssue({ code: "custom", message: fault });
});

const realmName = z.string({ error: "write a name in quotes" }).regex(REALM_ID, {
  error: "write 1 to 64 letters, digits, _ and -, the first a letter or digit",
});

/** Where a realm is kept; `[store]` of the file. */
export const StoreTable = z
  .strictObject({
    url: databaseUrl
      .optional()
      .meta(
        common(
          "the database that keeps sessions, agents and the realm's configuration; without it, the state folder does. `?sslmode=` is disable (the default), prefer, require or verify-full",
          EXAMPLE,
        ),
      ),
    realm: realmName
      .optional()
      .meta(common("whose rows they are in the database; --realm wins, and without both it is `default`", "team")),
    pool: whole(1, POOL_MAX).default(8).meta(common("connections a process has to the database at most")),
    pooled: flag
      .default(false)
      .meta(
        common("behind a pooler in transaction mode: no prepared statements, and others are polled, not heard", true),
      ),
    group_commit: flag
      .default(true)
      .describe(
        "appends of several sessions go in one statement; `false` where a database spreads sessions over machines",
      ),
    lease: wait
      .refine((ms) => ms >= LEASE_MS_MIN, { error: "write a duration of at least 1s" })
      .prefault("10s")
      .describe("how long a process may be silent before another takes over its sessions, in a database"),
    files: flag
      .optional()
      .describe("whether `.rkat/sessions` and `.rkat/agents` are written; without it, only where there is no database"),
  })
  .transform(({ lease: lease_ms, ...store }) => ({ ...store, lease_ms }));

const LEASE_MS_MIN = 1_000;

const ONE_KEY = "name the key once: write one of key_file, key_env and key_command, and remove the others";

/** Where the key is that a realm is sealed with; `[encryption]` of the file. */
export const EncryptionTable = z
  .strictObject({
    key_file: text
      .regex(/^(?:\/|~\/|[A-Za-z]:[\\/])/, { error: "write an absolute path, or one that begins with ~/" })
      .optional()
      .meta(common("a file that holds the key, as base64 or hex", "/etc/rkat/realm.key")),
    key_env: variableName.optional().describe("the variable that holds the key"),
    key_command: text.optional().describe("a command of the shell that prints the key, such as that of a vault"),
  })
  .refine((given) => Object.values(given).filter((value) => value !== undefined).length <= 1, { error: ONE_KEY });

/** How the vectors and words of memory are kept and searched. */
export const MemoryIndex = oneOf(["auto", "exact", "local", "database"]);

/** The address without its password, for readers of the configuration. */
export function withoutPassword(url: string): string {
  const address = new URL(url);
  address.password = "";
  return address.href;
}

/** The password of an address, encoded and decoded, which must never be stored or shown. */
export function passwordsOf(url: string): readonly string[] {
  const { password } = new URL(url);
  return password === "" ? [] : [url, password, decodeURIComponent(password)];
}
