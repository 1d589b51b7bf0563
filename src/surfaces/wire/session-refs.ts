import { RuntimeError } from "../../contract/error.ts";
import { isRecord } from "./incoming.ts";

/** How a session is named across realms. */
export function formatSessionRef(realm: string, sessionId: string): string {
  return `${realm}:${sessionId}`;
}

/** The session id in `<uuid>` or `<realm>:<uuid>`; throws INVALID_PARAMS when the realm is another. */
export function parseSessionRef(text: string, realm: string): string {
  const colon = text.indexOf(":");
  if (colon < 0) return text;
  const named = text.slice(0, colon);
  if (named === realm) return text.slice(colon + 1);
  throw new RuntimeError("INVALID_PARAMS", `session_id: ${text} is of realm ${named}, and this is realm ${realm}`);
}

/** What an operation is called with, before anybody has looked at it. */
export type Params = Readonly<Record<string, unknown>>;

/** Where params name a session: itself, the scope of its events, the cursor in them. */
const ID_FIELDS = ["session_id", "scope", "cursor"];

/** The params with every `<realm>:<uuid>` as a plain id; INVALID_PARAMS when the realm is another. */
export function withPlainIds(params: Params, realm: string): Params {
  const plain = ID_FIELDS.filter((field) => Object.hasOwn(params, field)).map((field) => {
    const value = params[field];
    if (field === "session_id" && typeof value === "string") return [field, parseSessionRef(value, realm)];
    return [field, isRecord(value) ? withPlainIds(value, realm) : value];
  });
  return { ...params, ...Object.fromEntries(plain) };
}

/** The result with a `session_ref` beside the `session_id` of whatever session it is about, or of each it lists. */
export function withSessionRefs(result: unknown, realm: string): unknown {
  if (!isRecord(result)) return result;
  const { session_id, sessions } = result;
  const ref = typeof session_id === "string" ? { session_ref: formatSessionRef(realm, session_id) } : {};
  const rows = Array.isArray(sessions) ? { sessions: sessions.map((row) => withSessionRefs(row, realm)) } : {};
  return { ...result, ...ref, ...rows };
}

/** The session a value speaks of, such as the details of a turn that failed. */
export function sessionIdIn(value: unknown): string | undefined {
  return isRecord(value) && typeof value.session_id === "string" ? value.session_id : undefined;
}

/** The session that a failed turn left behind; it can go on. */
export function sessionLeftBy(thrown: unknown): string | undefined {
  return thrown instanceof RuntimeError ? sessionIdIn(thrown.details) : undefined;
}
