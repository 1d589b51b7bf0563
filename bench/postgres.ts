// Sessions in PostgreSQL: what the store adds to the database's own cost, and what other processes wait for.
import { startPostgres } from "../test/support/postgres-server.ts";
import { measureDelays } from "./postgres-delay.ts";
import { countRoundTrips, measureLists } from "./postgres-reads.ts";
import { measureAppends, measureTurns } from "./postgres-speed.ts";
import { publish } from "./report.ts";

/** Of a bare loop of inserts, appends reach at least this share. */
const SHARE_MIN = 0.7;

const server = await startPostgres();
try {
  const speeds = await measureAppends(await server.createDatabase("appends"));
  const turns = await measureTurns(await server.createDatabase("turns"));
  const roundTrips = await countRoundTrips(await server.createDatabase("resume"));
  const delays = await measureDelays(await server.createDatabase("delay"));
  const lists = await measureLists(server);
  const [embedded = Number.NaN, database = Number.NaN] = turns.map(({ cpuMs }) => cpuMs);
  await publish({
    name: "postgres",
    tables: [
      [
        ["sessions", "bare inserts/s", "rkat, appends/s", "rkat / bare"],
        ...speeds.map(({ sessions, bare, rkat, ratio }) => [
          String(sessions),
          bare.toFixed(0),
          rkat.toFixed(0),
          ratio.toFixed(2),
        ]),
      ],
      [
        ["CPU of a turn in this process", "ms", "over embedded"],
        ...turns.map(({ name, cpuMs }) => [name, cpuMs.toFixed(2), (cpuMs / embedded).toFixed(2)]),
      ],
      [
        ["round trips, of a session another process wrote", ""],
        ["read it", String(roundTrips.read)],
        ["a turn, up to the model's first request", String(roundTrips.turn)],
      ],
      [
        ["event in another process, ms after it came in its own", "p50", "p99", "events"],
        ...delays.map(({ name, p50Ms, p99Ms, events }) => [name, p50Ms.toFixed(1), p99Ms.toFixed(1), String(events)]),
      ],
      [["page of 50 among 1,000,000 sessions", "database ms"], ...lists.map(({ what, ms }) => [what, ms.toFixed(2)])],
    ],
    targets: [
      ...speeds.map(({ sessions, ratio }) => ({
        what: `bare inserts over appends, ${sessions} sessions`,
        value: 1 / ratio,
        max: 1 / SHARE_MIN,
      })),
      { what: "CPU of a turn over embedded", value: database / embedded, max: 1.5 },
      { what: "round trips to read a session", value: roundTrips.read, max: 2 },
      ...delays.map(({ name, p50Ms }) => ({
        what: `delay to another process, p50 ms, ${name}`,
        value: p50Ms,
        max: 50,
      })),
      ...lists.map(({ what, ms }) => ({ what: `list, database ms: ${what}`, value: ms, max: 5 })),
    ],
    measured: { speeds, turns, roundTrips, delays, lists },
  });
} finally {
  await server.close();
}
