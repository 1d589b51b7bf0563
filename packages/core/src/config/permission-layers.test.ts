import { loadConfig } from "@rkat/node/config/load-config";
import { describe, expect, it } from "vitest";
import { composeOver, ownLayer } from "./config-layers.ts";
import { defaultConfig } from "./settings.ts";
import { spellConfig } from "./spell-config.ts";
import { requirePermitted } from "./trust-requests.ts";

const HOME = "/nobody/.rkat/config.toml";
const PROJECT = "/p/rkat.toml";
const REALM = "/s/config.toml";

const load = (files: Readonly<Record<string, string>>, isTrusted?: boolean) =>
  loadConfig({
    cwd: "/p",
    home: "/nobody",
    env: {},
    readFile: async (path) => files[path],
    stateFolder: "/s",
    isTrusted,
  });
const rules = (text: string) => `[permissions]\n${text}`;

describe("rules of the configuration", () => {
  it("[I1] stay apart by their owners, and those of the user hold beside a project's file", async () => {
    const { config, sources } = await load(
      { [HOME]: rules('deny = ["shell(rm *)"]'), [PROJECT]: rules('ask = ["shell"]\nallow = ["datetime"]') },
      true,
    );
    expect(config.permissions).toEqual([
      { from: "user", rules: { deny: ["shell(rm *)"] } },
      { from: "project", rules: { ask: ["shell"], allow: ["datetime"] } },
    ]);
    expect(sources).toEqual([HOME, PROJECT]);
    expect((await load({ [HOME]: rules('allow = ["shell"]') })).config.permissions).toEqual([
      { from: "user", rules: { allow: ["shell"] } },
    ]);
    expect((await load({ [HOME]: rules("allow = []") })).config.permissions).toEqual([]);
  });

  it("[I1] [I5] of a project may ask and deny, and allow once somebody trusted it", async () => {
    const files = { [PROJECT]: rules('allow = ["shell"]\nask = ["a"]\ndeny = ["b"]') };
    const { config, leftOut } = await load(files);
    expect(config.permissions).toEqual([{ from: "project", rules: { ask: ["a"], deny: ["b"] } }]);
    expect(leftOut).toContain(`left out until you trust this folder: permissions.allow of ${PROJECT}`);
    expect((await load(files, true)).config.permissions[0]?.rules.allow).toEqual(["shell"]);
    expect((await load({ [PROJECT]: rules('ask = ["a"]\nallow = []') })).leftOut).toBeUndefined();
  });

  it("[I1] of the realm's own layer add to the file's, and take none away", async () => {
    const { config, compose } = await load(
      { [PROJECT]: rules('deny = ["a"]\nask = ["c"]'), [REALM]: rules('deny = ["b"]') },
      true,
    );
    expect(config.permissions).toEqual([{ from: "project", rules: { deny: ["a", "b"], ask: ["c"] } }]);
    expect(compose({ permissions: { deny: [] } }, "it").permissions).toEqual([
      { from: "project", rules: { deny: ["a"], ask: ["c"] } },
    ]);
  });

  it("[I1] are the same when they are written out and read again", async () => {
    const { config } = await load({ [HOME]: rules('deny = ["a"]'), [PROJECT]: rules('ask = ["b"]') });
    expect(spellConfig(config).permissions).toEqual({ ask: ["b"] });
    expect(composeOver(config)(ownLayer(spellConfig(config), config), "it")).toEqual(config);
  });

  it.each([
    ['allow = "shell"', 'permissions.allow is "shell"; write a list of patterns, like ["shell(git *)"]'],
    [
      'allow = ["shell("]',
      'permissions.allow.0 is "shell("; "shell(" says nothing in its parentheses; write it like shell(git *)',
    ],
    ['deny = ["Bash(rm *)"]', '"Bash(rm *)" names no tool of rkat; write shell or shell(git *)'],
    ['allowed = ["x"]', "permissions.allowed is not a known key; did you mean permissions.allow?"],
  ])("[I1] [H1] that are wrong are named with what to write: %s", async (text, sentence) => {
    await expect(load({ [PROJECT]: rules(text) })).rejects.toThrow(sentence);
    await expect(load({ [HOME]: rules(text), [PROJECT]: "" })).rejects.toThrow(HOME);
  });

  it("[I1] cannot be changed by whoever asks over a wire, not even to ask for less", () => {
    const before = defaultConfig();
    const change = (layerBefore: object, layer: object) => () =>
      requirePermitted(
        { before, after: before, layerBefore: { ...layerBefore }, layer: { ...layer } },
        { ceiling: { builtins: "all", shell: true }, mayReach: false },
      );
    const denied = "permissions: it decides what is started";
    expect(change({}, { permissions: { allow: ["shell"] } })).toThrow(denied);
    expect(change({ permissions: { ask: ["shell"] } }, {})).toThrow(denied);
    expect(change({ permissions: { ask: ["shell"] } }, { permissions: { ask: ["shell"] } })).not.toThrow();
    expect(change({}, spellConfig(before))).not.toThrow();
  });
});
