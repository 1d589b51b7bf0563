import { createHash } from "node:crypto";
import type { Signals } from "@rkat/core/ports/store";
import { createSessionListeners } from "@rkat/core/stores/session-listeners";
import { type Connection, createLook } from "./connection.ts";

/**
 * The notifications on a realm's channel: a log grew, a turn must stop, a message waits, the configuration changed. Ids and
 * numbers only.
 */
type Notification = `log ${string} ${number}` | `interrupt ${string}` | `note ${string} ${string}` | `config ${number}`;

export interface Channel extends Signals {
  notify(notification: Exclude<Notification, `log ${string}`>): void;
  /** Calls `received` with every other notification until the returned function is called. */
  listen(received: Received): () => void;
}

type Received = (kind: "interrupt" | "note" | "config", what: string, note: string) => void;

export interface ChannelParts {
  readonly connection: Connection;
  readonly realm: string;
  /** Whether notifications arrive; behind a pooler that reassigns connections they do not. */
  readonly isPooled: boolean;
  readonly warn: (sentence: string) => void;
}

/** Notifications are sent together, outside the transactions that cause them: inside, one costs six times as much. */
const SEND_MS = 10;
const PAYLOAD_CHARS_MAX = 7_500;
/** How often subscribed logs are polled: with notifications only for lost ones. */
const LOOK_MS = 1_000;
const LOOK_MS_SILENT = 100;
/** How often in a row a silent LISTEN is restarted before it is given up. */
const SILENT_MAX = 3;

/** Notifications between the processes of a realm, by NOTIFY; lost ones are found by polling. */
export function createChannel({ connection, realm, isPooled, warn }: ChannelParts): Channel {
  const name = `rkat_${createHash("sha256").update(realm).digest("hex").slice(0, 16)}`;
  const others = new Set<Received>();
  const listeners = createSessionListeners(() => attend());
  /** The known end of each subscribed log. */
  const reached = new Map<string, number>();
  /** The end by the notifications of others, and the logs whose growth only the last poll found. */
  const reported = new Map<string, number>();
  let missedSessions = new Set<string>();
  let waiting = new Map<string, Notification>();
  let sending: NodeJS.Timeout | undefined;
  let timer: NodeJS.Timeout | undefined;
  let everyMs = 0;
  let endListening: (() => Promise<void>) | undefined;
  let silentStarts = isPooled ? SILENT_MAX : 0;
  let isOpening = false;
  let isClosed = false;
  if (isPooled) warn("the database is behind a pooler: changes of other processes are found by polling");

  const watchLog = (sessionId: string, seq: number): void => {
    if (!listeners.hasListeners(sessionId) || seq <= (reached.get(sessionId) ?? 0)) return;
    reached.set(sessionId, seq);
    listeners.emit(sessionId, seq);
  };
  const onPayload = (payload: string): void => {
    silentStarts = 0;
    for (const line of payload.split("\n")) {
      const [kind, what = "", seq = ""] = line.split(" ");
      if (kind === "log") {
        missedSessions.delete(what);
        // Any user of the database can send any notification, so it is not trusted as the end of the log.
        if (listeners.hasListeners(what)) reported.set(what, Number(seq));
        if (Number(seq) > (reached.get(what) ?? 0)) listeners.emit(what, Number(seq));
      }
      if (kind === "interrupt" || kind === "note" || kind === "config")
        for (const received of others) received(kind, what, seq);
    }
  };
  const send = (notification: Notification, key: string = notification): void => {
    waiting.set(key, notification);
    sending ??= setTimeout(() => void sendAll(), SEND_MS).unref();
  };
  const sendAll = async (): Promise<void> => {
    const payloads = payloadsOf(waiting.values());
    waiting = new Map();
    sending = undefined;
    try {
      await connection.runOnce((query) => query`select pg_notify(${name}, word) from unnest(${payloads}::text[]) word`);
    } catch {
      // Receivers find it by polling.
    }
  };

  /** Finds changes without a notification, and whether notifications still arrive. */
  const look = async (): Promise<void> => {
    const received = listeners.received();
    if (received.length === 0) return;
    const rows = await connection.query<{ id: string; last_seq: number }>`
      select id, last_seq from rkat.sessions where realm = ${realm} and id = any(${received}::text[])`;
    const isSilent = [...missedSessions].some((id) => listeners.hasListeners(id));
    // The end of a log at the first poll is not a change.
    const known = (id: string): number => Math.max(reached.get(id) ?? Number.POSITIVE_INFINITY, reported.get(id) ?? 0);
    missedSessions = new Set(rows.filter(({ id, last_seq }) => last_seq > known(id)).map(({ id }) => id));
    for (const { id, last_seq } of rows) watchLog(id, last_seq);
    if (isSilent && endListening !== undefined) await restartListening();
  };
  const restartListening = async (): Promise<void> => {
    // Of several concurrent starts all but the last would leak.
    if (isOpening) return;
    isOpening = true;
    await stopListening().finally(() => {
      isOpening = false;
    });
    if (isClosed || silentStarts >= SILENT_MAX) return;
    silentStarts += 1;
    if (silentStarts === SILENT_MAX) {
      warn(
        "notifications of the database do not arrive: changes of other processes are found by polling, ten times a second",
      );
      return attend();
    }
    endListening = connection.listen(name, onPayload);
  };
  const stopListening = async (): Promise<void> => {
    const end = endListening;
    endListening = undefined;
    await end?.();
  };
  const looks = createLook(look);
  /** Listens and polls while there are subscribers. */
  const attend = (): void => {
    for (const known of [reached, reported])
      for (const id of known.keys()) if (!listeners.hasListeners(id)) known.delete(id);
    const isNeeded = !isClosed && (listeners.received().length > 0 || others.size > 0);
    if (isNeeded && endListening === undefined && silentStarts < SILENT_MAX) void restartListening();
    const neededMs = !isNeeded ? 0 : silentStarts >= SILENT_MAX ? LOOK_MS_SILENT : LOOK_MS;
    // If readers come and go all the time, a timer that each of them restarted would never fire.
    if (neededMs === everyMs) return;
    clearInterval(timer);
    everyMs = neededMs;
    if (isNeeded) timer = setInterval(looks.request, neededMs).unref();
  };

  return {
    emit: (sessionId, seq) => {
      listeners.emit(sessionId, seq);
      if (listeners.hasListeners(sessionId)) reached.set(sessionId, Math.max(seq, reached.get(sessionId) ?? 0));
      send(`log ${sessionId} ${seq}`, sessionId);
    },
    subscribe: listeners.subscribe,
    notify: (notification) => send(notification),
    listen: (received) => {
      others.add(received);
      attend();
      return () => {
        others.delete(received);
        attend();
      };
    },
    close: async () => {
      isClosed = true;
      clearInterval(timer);
      clearTimeout(sending);
      await Promise.all([waiting.size > 0 ? sendAll() : undefined, looks.settled()]);
      await stopListening();
    },
  };
}

function payloadsOf(notifications: Iterable<Notification>): string[] {
  const payloads: string[] = [];
  let payload = "";
  for (const notification of notifications) {
    if (payload.length + notification.length >= PAYLOAD_CHARS_MAX) {
      payloads.push(payload);
      payload = "";
    }
    payload = payload === "" ? notification : `${payload}\n${notification}`;
  }
  return payload === "" ? payloads : [...payloads, payload];
}
