import { formatToml, parseToml } from "@rkat/node/config/config-file";
import { loadConfig } from "@rkat/node/config/load-config";
import { describe, expect, it } from "vitest";
import { createRuntime } from "../create-runtime.ts";
import { ConfigFile } from "./config-schema.ts";
import { spellConfig } from "./spell-config.ts";

const FILE = '[retention]\nsessions = "90d"\n[retention.labels]\n"team=core" = "1d 12h"\n"hold=legal" = "forever"\n';
const KEPT = { sessions: 7_776_000_000, labels: { "team=core": 129_600_000, "hold=legal": "forever" } };

const load = (text: string, isTrusted: boolean) =>
  loadConfig({
    ...{ cwd: "/p", home: "/h", env: {}, isTrusted },
    readFile: async (path) => (path === "/p/rkat.toml" ? text : undefined),
  });

describe("[retention]", () => {
  it("[K2] says how long sessions are kept, in all and by label, and reads back as it was written", async () => {
    const { config } = await load(FILE, true);
    expect(config.retention).toEqual(KEPT);
    const again = ConfigFile.parse(parseToml(formatToml(spellConfig(config)), "it"));
    expect(again.retention).toEqual(KEPT);
    expect((await load("", true)).config.retention).toEqual({ labels: {} });
  });

  it("[K2] of a project is left out until somebody trusts it: it decides what is deleted", async () => {
    const { config, leftOut } = await load(FILE, false);
    expect(config.retention).toEqual({ labels: {} });
    expect(leftOut).toContain("retention.sessions, retention.labels.team=core, retention.labels.hold=legal");
  });

  it("[K2] cannot be set by a client that may not forget", async () => {
    const runtime = createRuntime({ ceiling: "safe", env: {} });
    await expect(runtime.dispatch("patchConfig", { patch: { retention: { sessions: "1ms" } } })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: expect.stringContaining("retention.sessions"),
    });
    const owner = createRuntime({ env: {} });
    const { config, restart_required } = await owner.dispatch("patchConfig", {
      patch: { retention: { sessions: "90d", labels: { "team=core": "12h" } } },
    });
    expect(config.retention).toEqual({ sessions: "90d", labels: { "team=core": "12h" } });
    expect(restart_required).toEqual(["retention"]);
    await Promise.all([runtime.close(), owner.close()]);
  });

  it("[K2] that cannot be meant is refused by its key", async () => {
    const refusal = (text: string) => load(text, true).catch((thrown: Error) => thrown.message);
    const wanted = 'write a duration longer than zero, like 90d, or "forever"';
    expect(await refusal('[retention]\nsessions = "0s"\n')).toBe(`/p/rkat.toml: retention.sessions is "0s"; ${wanted}`);
    expect(await refusal("[retention]\nsessions = 90\n")).toBe(`/p/rkat.toml: retention.sessions is 90; ${wanted}`);
    expect(await refusal('[retention]\nsessions = "-1d"\n')).toContain(`retention.sessions is "-1d"; ${wanted}`);
    expect(await refusal('[retention.labels]\nteam = "1d"\n')).toBe(
      '/p/rkat.toml: retention.labels.team is "1d"; name the label as "key=value", like "team=core"',
    );
    expect(await refusal('[retention.labels]\n"=core" = "1d"\n')).toContain('name the label as "key=value"');
    expect(await refusal('[retention]\nsession = "1d"\n')).toContain("did you mean retention.sessions?");
  });
});
