import { formatToml, parseToml } from "@rkat/node/config/config-file";
import { loadConfig } from "@rkat/node/config/load-config";
import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { RuntimeError } from "../contract/error.ts";
import { composeOver } from "./config-layers.ts";
import { ConfigFile } from "./config-schema.ts";
import { defaultConfig } from "./settings.ts";
import { spellConfig } from "./spell-config.ts";

const places = (files: Readonly<Record<string, string>>, env: Readonly<Record<string, string>> = {}) => ({
  cwd: "/p",
  home: "/h",
  stateFolder: "/s",
  env,
  readFile: async (path: string) => files[path],
});

describe("the realm's own layer", () => {
  it("[G2] lies over the project's file and under the environment", async () => {
    const files = {
      "/p/rkat.toml": '[agent]\nmodel = "a"\nmax_turns = 3\nsystem_prompt = "Be brief."\n[profiles.x]\nmodel = "m"\n',
      "/s/config.toml": '[agent]\nmodel = "b"\nmax_turns = 4\n[profiles.y]\nmodel = "n"\n',
    };
    const { config, sources } = await loadConfig(places(files, { RKAT_MODEL: "c" }));
    expect(config.agent).toMatchObject({ model: "c", max_turns: 4, system_prompt: "Be brief." });
    expect(Object.keys(config.profiles)).toEqual(["x", "y"]);
    expect(sources).toEqual(["/p/rkat.toml", "/s/config.toml", "RKAT_MODEL"]);
  });

  it("[H4] switches nothing on that the file says false to, and forbids nothing itself", async () => {
    const on = "[tools]\nshell_enabled = true\nbuiltins_enabled = true\n";
    const file = "[tools]\nshell_enabled = false\n";
    const locked = await loadConfig({ ...places({ "/p/rkat.toml": file, "/s/config.toml": on }), isTrusted: true });
    expect(locked.config).toMatchObject({
      tools: { shell_enabled: false, builtins_enabled: true },
      forbidden: ["shell"],
    });
    expect(composeOver(locked.config)({ tools: { shell_enabled: true } }, "patch")).toEqual(locked.config);
    const written = await loadConfig(places({ "/s/config.toml": file }));
    expect(written.config).toMatchObject({ tools: { shell_enabled: false }, forbidden: [] });
  });

  it("[G2] is what is named when something in a list of its is wrong", async () => {
    const { compose } = await loadConfig(places({ "/p/rkat.toml": '[agent]\nmodel = "a"\n' }));
    expect(() => compose({ features: ["nope"] }, "patch")).toThrow(/^patch: features\.0 /);
  });

  it("replaces a limit below it in whichever spelling", async () => {
    const older = { "/p/rkat.toml": "[limits]\nbudget = 5\n", "/s/config.toml": "[budget]\nmax_tokens = 6\n" };
    const newer = { "/p/rkat.toml": "[budget]\nmax_tokens = 5\n", "/s/config.toml": "[limits]\nbudget = 6\n" };
    for (const files of [older, newer]) {
      const { config } = await loadConfig(places(files));
      expect(config.budget).toEqual({ max_tokens: 6 });
    }
  });

  it("[H1] that is wrong is one sentence with its path, and so is what lies below it", async () => {
    const refusal = (files: Readonly<Record<string, string>>) =>
      loadConfig(places(files)).catch((thrown: Error) => thrown.message);
    expect(await refusal({ "/s/config.toml": "[agent\n" })).toMatch(/^\/s\/config\.toml is not valid TOML at line 1/);
    expect(await refusal({ "/s/config.toml": "[agent]\nmodle = 1\n" })).toBe(
      "/s/config.toml: agent.modle is not a known key; did you mean agent.model?",
    );
    const both = { "/p/rkat.toml": "[retry]\nmax_retries = -1\n", "/s/config.toml": "[agent]\nmax_turns = 4\n" };
    expect(await refusal(both)).toMatch(/^\/p\/rkat\.toml: retry\.max_retries is -1/);
  });

  it("[H1] has no key that is null: only a patch takes one away", () => {
    const compose = composeOver(defaultConfig());
    expect(() => compose({ agent: { model: null } }, "config")).toThrow("config: agent.model is null");
  });
});

/** Any configuration that differs from the defaults where they are hardest to write back. */
const anyFile = fc.record(
  {
    agent: fc.record({ model: fc.string({ minLength: 1 }), max_turns: fc.integer({ min: 1 }) }, { requiredKeys: [] }),
    budget: fc.record(
      {
        max_tokens: fc.integer({ min: 1 }),
        max_duration: fc.integer({ min: 1, max: 2 ** 31 - 1 }).map((ms) => `${ms}ms`),
      },
      { requiredKeys: [] },
    ),
    limits: fc.record({ max_sessions: fc.integer({ min: 1 }) }),
    retry: fc.record(
      {
        max_delay: fc.integer({ min: 500, max: 2 ** 31 - 1 }).map((ms) => `${ms}ms`),
        call_timeout: fc.constantFrom("disabled", "45s", "1h30m", "1d"),
        stall_timeout: fc.constantFrom("disabled", "90s"),
      },
      { requiredKeys: [] },
    ),
    shell: fc.record(
      { program: fc.constantFrom("bash", "sh"), timeout_secs: fc.double({ min: 0.0001, max: 2_147_483, noNaN: true }) },
      { requiredKeys: [] },
    ),
    compaction: fc.record({ auto_compact_threshold: fc.integer({ min: 1 }) }, { requiredKeys: [] }),
    profiles: fc.dictionary(fc.string({ minLength: 1 }), fc.record({ model: fc.string({ minLength: 1 }) })),
    providers: fc.dictionary(fc.stringMatching(/^[a-z .]{1,8}$/), fc.constant({})),
    sub_agents: fc
      .tuple(
        fc.record({ enabled: fc.boolean(), max_depth: fc.integer({ min: 1, max: 8 }) }, { requiredKeys: [] }),
        fc.dictionary(
          fc.stringMatching(/^[a-z0-9-]{1,8}$/).filter((name) => name !== "enabled"),
          fc.record(
            {
              description: fc.string({ minLength: 1 }),
              prompt: fc.string({ minLength: 1 }).map((text) => `${text}.`),
              tools: fc.array(fc.string({ minLength: 1 })),
              max_duration: fc.integer({ min: 1, max: 2 ** 31 - 1 }).map((ms) => `${ms}ms`),
              max_cost: fc.double({ min: 0.001, max: 1e6, noNaN: true }),
              inherit: fc.constantFrom("none", "fork"),
            },
            { requiredKeys: ["description", "prompt"] },
          ),
        ),
      )
      .map(([bounds, named]) => ({ ...named, ...bounds })),
    features: fc.subarray(["session-store", "memory-store", "session-compaction"]),
  },
  { requiredKeys: [] },
);

describe("a configuration by the keys of its file", () => {
  it("[G2] reads back as the same, as JSON and as TOML", () => {
    fc.assert(
      fc.property(anyFile, (file) => {
        const config = ConfigFile.parse(file);
        const spelled = spellConfig(config);
        expect(ConfigFile.parse(spelled)).toEqual(config);
        expect(ConfigFile.parse(parseToml(formatToml(spelled), "it"))).toEqual(config);
        expect(composeOver(config)({}, "it")).toEqual(config);
      }),
    );
  });

  it("[H1] [H5] names twenty of the keys that are none, however many there are and however long", () => {
    const layer = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`k${index}`, index]));
    const given = { ...layer, ["x".repeat(200_000)]: 1, agent: { ["y".repeat(200_000)]: 1 } };
    const error = refusalOf(() => composeOver(defaultConfig())(given, "patch"));
    expect(error.message).toMatch(/^patch: .{1,130} is not a known key; did you mean [a-z_.]{1,40}\?$/);
    expect(error.details).toMatchObject({ problems: { length: 20 }, unknown_keys: { length: 20 } });
  });
});

function refusalOf(work: () => unknown): RuntimeError {
  try {
    work();
  } catch (thrown) {
    if (thrown instanceof RuntimeError) return thrown;
  }
  throw new Error("it was not refused");
}
