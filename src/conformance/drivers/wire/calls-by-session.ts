import type { OperationName } from "../../../contract/operations.ts";
import type { ToldEvent } from "../driver.ts";

type Hear = (event: ToldEvent) => void;

interface Running {
  session: unknown;
  readonly mayBeNew: boolean;
  readonly hear: Hear;
}

/** Which running call an event belongs to, where one connection carries the events of all. */
export interface CallsBySession {
  /** A call begins; the result ends it. */
  begin(operation: OperationName, session: unknown, hear: Hear | undefined): () => void;
  /** Hands an event of a session to the call that runs it. */
  tell(session: unknown, event: ToldEvent): void;
}

export function createCallsBySession(): CallsBySession {
  const running = new Set<Running>();
  return {
    begin: (operation, session, hear = () => {}) => {
      const call: Running = { session, mayBeNew: operation === "createSession", hear };
      running.add(call);
      return () => running.delete(call);
    },
    tell: (session, event) => {
      const calls = [...running];
      // A call that was refused at once hears nothing: the first of a session is the one that runs.
      const known = calls.find((call) => call.session === session);
      const call = known ?? calls.find(({ session: none, mayBeNew }) => none === undefined && mayBeNew);
      if (call === undefined) return;
      call.session = session;
      call.hear(event);
    },
  };
}
