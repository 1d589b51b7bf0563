import { RuntimeError } from "../../contract/error.ts";
import type { InjectContext } from "../../contract/session.ts";
import { appendEntries, type LiveSession } from "./live-session.ts";
import type { TurnParts } from "./turn-runner.ts";

/** Adds a text to a session that this process holds; a running turn shows it at its next model call. */
export async function inject(
  { store, clock }: TurnParts,
  session: LiveSession,
  input: InjectContext,
): Promise<{ status: "applied" | "staged" | "duplicate" }> {
  const { text, source, idempotency_key } = input;
  const known = idempotency_key === undefined ? undefined : session.state.injected.get(idempotency_key);
  if (known === text) return { status: "duplicate" };
  if (known !== undefined) {
    const message = `idempotency_key: ${idempotency_key} was already used with another text`;
    throw new RuntimeError("INVALID_PARAMS", message);
  }
  const created_at = new Date(clock.now()).toISOString();
  const message = { role: "system_notice" as const, kind: source ?? "context", body: text, created_at };
  const key = idempotency_key === undefined ? {} : { idempotency_key };
  const isInTurn = session.state.isTurnOpen;
  await appendEntries(store.log, session, [{ kind: "notice", message, ...key }]);
  return { status: isInTurn ? "staged" : "applied" };
}
