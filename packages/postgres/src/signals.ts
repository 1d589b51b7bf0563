import { createHash } from "node:crypto";
import type { Signals } from "@rkat/core/ports/store";
import { createSessionListeners } from "@rkat/core/stores/session-listeners";
import { type Connection, createLook } from "./connection.ts";

/** What is said on a realm's channel: a log grew, a turn is to stop, the configuration changed. Ids and numbers only. */
type Notification = `log ${string} ${number}` | `interrupt ${string}` | `config ${number}`;

export interface Channel extends Signals {
  say(word: Exclude<Notification, `log ${string}`>): void;
  /** Calls `received` with every interrupt and change of the configuration that is said; what is returned ends it. */
  listen(received: (kind: "interrupt" | "config", what: string) => void): () => void;
}

export interface ChannelParts {
  readonly connection: Connection;
  readonly realm: string;
  /** Whether notifications reach us; behind a pooler that gives connections away they do not. */
  readonly isPooled: boolean;
  readonly warn: (sentence: string) => void;
}

/** Words are said together, off the path of what they tell of: within its transaction a word costs six times as much. */
const SAY_MS = 10;
const PAYLOAD_CHARS_MAX = 7_500;
/** How often logs are looked at that somebody hears: where notifications come, to make up for lost ones. */
const LOOK_MS = 1_000;
const LOOK_MS_DEAF = 100;
/** So often in a row is a listening that heard nothing begun anew before it is given up. */
const DEAF_MAX = 3;

/** Words between the processes of a realm, by NOTIFY; whatever it loses is found by looking. */
export function createChannel({ connection, realm, isPooled, warn }: ChannelParts): Channel {
  const name = `rkat_${createHash("sha256").update(realm).digest("hex").slice(0, 16)}`;
  const others = new Set<(kind: "interrupt" | "config", what: string) => void>();
  const listeners = createSessionListeners(() => attend());
  /** The furthest each heard log is known to reach. */
  const reached = new Map<string, number>();
  /** The furthest that others said of it, and what only looking found the last time. */
  const said = new Map<string, number>();
  let unheardSessions = new Set<string>();
  let waiting = new Map<string, Notification>();
  let saying: NodeJS.Timeout | undefined;
  let timer: NodeJS.Timeout | undefined;
  let everyMs = 0;
  let endListening: (() => Promise<void>) | undefined;
  let deafness = isPooled ? DEAF_MAX : 0;
  let isOpening = false;
  let isClosed = false;
  if (isPooled) warn("the database is behind a pooler: what other processes do is looked for, not listened to");

  const watchLog = (sessionId: string, seq: number): void => {
    if (!listeners.hasListeners(sessionId) || seq <= (reached.get(sessionId) ?? 0)) return;
    reached.set(sessionId, seq);
    listeners.emit(sessionId, seq);
  };
  const onPayload = (payload: string): void => {
    deafness = 0;
    for (const line of payload.split("\n")) {
      const [kind, what = "", seq] = line.split(" ");
      if (kind === "log") {
        unheardSessions.delete(what);
        // Whoever may use the database may say anything: it is not taken for how far the log reaches.
        if (listeners.hasListeners(what)) said.set(what, Number(seq));
        if (Number(seq) > (reached.get(what) ?? 0)) listeners.emit(what, Number(seq));
      }
      if (kind === "interrupt" || kind === "config") for (const received of others) received(kind, what);
    }
  };
  const say = (word: Notification, key: string = word): void => {
    waiting.set(key, word);
    saying ??= setTimeout(() => void sayAll(), SAY_MS).unref();
  };
  const sayAll = async (): Promise<void> => {
    const payloads = payloadsOf(waiting.values());
    waiting = new Map();
    saying = undefined;
    try {
      await connection.runOnce((query) => query`select pg_notify(${name}, word) from unnest(${payloads}::text[]) word`);
    } catch {
      // Whoever would have heard it finds it by looking.
    }
  };

  /** Finds what nobody told, and whether notifications still come. */
  const look = async (): Promise<void> => {
    const received = listeners.received();
    if (received.length === 0) return;
    const rows = await connection.query<{ id: string; last_seq: number }>`
      select id, last_seq from rkat.sessions where realm = ${realm} and id = any(${received}::text[])`;
    const isDeaf = [...unheardSessions].some((id) => listeners.hasListeners(id));
    // Where a log ended when it was first looked at is no news.
    const known = (id: string): number => Math.max(reached.get(id) ?? Number.POSITIVE_INFINITY, said.get(id) ?? 0);
    unheardSessions = new Set(rows.filter(({ id, last_seq }) => last_seq > known(id)).map(({ id }) => id));
    for (const { id, last_seq } of rows) watchLog(id, last_seq);
    if (isDeaf && endListening !== undefined) await listenAnew();
  };
  const listenAnew = async (): Promise<void> => {
    // Of several that are begun at once all but the last would be left behind, and never closed.
    if (isOpening) return;
    isOpening = true;
    await stopListening().finally(() => {
      isOpening = false;
    });
    if (isClosed || deafness >= DEAF_MAX) return;
    deafness += 1;
    if (deafness === DEAF_MAX) {
      warn("notifications of the database do not come: what other processes do is looked for, ten times a second");
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
  /** Listens and looks as long as somebody hears. */
  const attend = (): void => {
    for (const known of [reached, said])
      for (const id of known.keys()) if (!listeners.hasListeners(id)) known.delete(id);
    const isNeeded = !isClosed && (listeners.received().length > 0 || others.size > 0);
    if (isNeeded && endListening === undefined && deafness < DEAF_MAX) void listenAnew();
    const neededMs = !isNeeded ? 0 : deafness >= DEAF_MAX ? LOOK_MS_DEAF : LOOK_MS;
    // Where readers come and go all the time, looks that began anew with each of them would never come.
    if (neededMs === everyMs) return;
    clearInterval(timer);
    everyMs = neededMs;
    if (isNeeded) timer = setInterval(looks.request, neededMs).unref();
  };

  return {
    emit: (sessionId, seq) => {
      listeners.emit(sessionId, seq);
      if (listeners.hasListeners(sessionId)) reached.set(sessionId, Math.max(seq, reached.get(sessionId) ?? 0));
      say(`log ${sessionId} ${seq}`, sessionId);
    },
    subscribe: listeners.subscribe,
    say: (word) => say(word),
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
      clearTimeout(saying);
      await Promise.all([waiting.size > 0 ? sayAll() : undefined, looks.settled()]);
      await stopListening();
    },
  };
}

function payloadsOf(words: Iterable<Notification>): string[] {
  const payloads: string[] = [];
  let payload = "";
  for (const word of words) {
    if (payload.length + word.length >= PAYLOAD_CHARS_MAX) {
      payloads.push(payload);
      payload = "";
    }
    payload = payload === "" ? word : `${payload}\n${word}`;
  }
  return payload === "" ? payloads : [...payloads, payload];
}
