import { expect, it } from "vitest";
import { createSessionServers } from "./session-servers.ts";

it("[T1] servers of sessions: at most 32 that no turn uses stay connected, and those of turns always", async () => {
  const ended: string[] = [];
  const servers = createSessionServers(({ name }) => ({
    prepare: async () => {},
    tools: () => [],
    report: () => [],
    close: async () => void ended.push(name),
  }));
  const { signal } = new AbortController();
  const added = (n: number) => [{ id: `id-${n}`, name: `s${n}`, url: "http://a.test/" }];
  const letGoOfFirst = await servers.hold(added(1), signal);
  for (let n = 2; n <= 34; n += 1) (await servers.hold(added(n), signal))();
  expect(ended).toEqual(["s2"]);
  servers.drop(added(1), []);
  expect(ended).toEqual(["s2"]);
  letGoOfFirst();
  expect(ended).toEqual(["s2", "s1"]);
  servers.drop(added(3), added(3));
  servers.drop(added(3), added(4));
  expect(ended).toEqual(["s2", "s1", "s3"]);
  await servers.close();
  expect(ended).toHaveLength(34);
});
