import { defaultConfig } from "@rkat/core/config/settings";
import { RuntimeError } from "@rkat/core/contract/error";
import { describe, expect, it } from "vitest";
import { loadConfig } from "./load-config.ts";

interface World {
  readonly files?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

const load = ({ files = {}, env = {}, cwd = "/p/app" }: World = {}) =>
  loadConfig({ cwd, home: "/h", env, readFile: async (path) => files[path], isTrusted: true });

/** The message a project file is refused with. */
const refusal = async (toml: string, env: Readonly<Record<string, string>> = {}): Promise<string> => {
  const error = await load({ files: { "/p/rkat.toml": toml }, env }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RuntimeError);
  expect(error).toMatchObject({ code: "INVALID_PARAMS" });
  return error instanceof Error ? error.message : "";
};

describe("a hook's command", () => {
  it("[N3] that is written as a path lies beside the file that names it, wherever rkat is started", async () => {
    const hook = (id: string, command: string): string =>
      `[[hooks.entries]]\nid = "${id}"\npoint = "run_started"\n[hooks.entries.runtime]\ntype = "command"\ncommand = "${command}"\n`;
    const commands = async (files: Readonly<Record<string, string>>) => {
      const { config } = await load({ files, cwd: "/p/app/deep" });
      return config.hooks.entries.map(({ runtime }) => runtime.command);
    };
    const own = { "/h/.rkat/config.toml": hook("mine", "./bin/mine.sh") };
    const near = hook("a", "./hooks/a.sh") + hook("b", "jq") + hook("c", "/bin/true");
    expect(await commands({ "/p/app/rkat.toml": near, ...own })).toEqual([
      "/h/bin/mine.sh",
      "/p/app/hooks/a.sh",
      "jq",
      "/bin/true",
    ]);
    expect(await commands({ "/p/.rkat/config.toml": hook("a", "hooks/a.sh") })).toEqual(["/p/hooks/a.sh"]);
    expect(await commands(own)).toEqual(["/h/bin/mine.sh"]);
  });
});

describe("defaults", () => {
  it("are complete without a file or a variable", async () => {
    const { config, sources } = await load();
    expect(sources).toEqual([]);
    expect(config).toEqual({
      features: ["session-store", "memory-store", "session-compaction"],
      agent: {
        max_tokens_per_turn: 16_384,
        max_turns: 100,
        budget_warning_threshold: 0.8,
        structured_output_retries: 2,
      },
      budget: {},
      ceiling: { limits: {} },
      limits: { max_sessions: 100_000 },
      turns: { resume: true, attempts: 3, schedules: true },
      schedules: [],
      retry: {
        max_retries: 3,
        initial_delay_ms: 500,
        max_delay_ms: 30_000,
        retry_after_max_ms: 600_000,
        multiplier: 2,
        call_timeout_ms: 600_000,
        stall_timeout_ms: 300_000,
      },
      compaction: {},
      tools: {
        default_timeout_ms: 600_000,
        approval_timeout_ms: 1_800_000,
        max_concurrent: 10,
        builtins_enabled: false,
        shell_enabled: false,
        memory: true,
        comms_enabled: true,
        output_bytes_max: 65_536,
      },
      shell: { program: undefined, timeout_ms: 30_000 },
      encryption: {},
      store: { pool: 8, pooled: false, group_commit: true, lease_ms: 10_000 },
      rest: { host: "127.0.0.1", port: 8_080 },
      openai: { memory: "session", tools: "memory" },
      ui: { memory: "session", tools: "memory", grace_ms: 10_000 },
      memory: { embedder: "local", index: "auto", scope: "project" },
      retention: { labels: {} },
      agent_memory: { immediate_window: 64, recent_window: 64, profile: "summarizer" },
      sub_agents: {
        enabled: false,
        max_depth: 2,
        max_concurrent: 4,
        max_tasks: 16,
        result_bytes_max: 16_384,
        named: {},
      },
      telemetry: { enabled: false, capture_content: false, service_name: "rkat" },
      skills: { enabled: true },
      agents_md: { enabled: true },
      hooks: { entries: [], default_timeout_ms: 5_000, payload_max_bytes: 131_072, background_max_concurrency: 32 },
      profiles: {},
      providers: {},
      self_hosted: { servers: {}, models: {} },
      models: {},
      prices: {},
      permissions: [],
      forbidden: [],
    });
    expect(defaultConfig()).toEqual(config);
  });
});

describe("which file", () => {
  const home = { "/h/.rkat/config.toml": '[agent]\nmodel = "of-home"\nmax_turns = 7\n' };

  it("reads the home file where no project has one", async () => {
    const { config, sources } = await load({ files: home });
    expect(config.agent).toMatchObject({ model: "of-home", max_turns: 7 });
    expect(sources).toEqual(["/h/.rkat/config.toml"]);
  });

  it("merges the nearest project file over the user's file", async () => {
    const files = {
      ...home,
      "/p/rkat.toml": '[agent]\nmodel = "of-project"\n',
      "/rkat.toml": "[agent]\nmax_turns = 1\n",
    };
    const { config, sources } = await load({ files });
    expect(config.agent).toMatchObject({ model: "of-project", max_turns: 7 });
    expect(sources).toEqual(["/h/.rkat/config.toml", "/p/rkat.toml"]);
  });

  it("lets a project replace the other spelling of a limit, or of a sub-agent", async () => {
    const agent = (name: string, prompt: string) => `[${name}]\ndescription = "d"\nprompt = "${prompt}"\n`;
    const files = {
      "/h/.rkat/config.toml": `[limits]\nbudget = 5\n${agent("agents.tester", "the user's")}`,
      "/p/rkat.toml": `[budget]\nmax_tokens = 9\n${agent("sub_agents.tester", "the project's")}`,
    };
    const { config } = await load({ files });
    expect(config.budget.max_tokens).toBe(9);
    expect(config.sub_agents.named.tester?.prompt).toBe("the project's");
  });

  it("[H2] never lets a project weaken the user's deny rules or switch on what the user forbids", async () => {
    const files = {
      "/h/.rkat/config.toml": '[permissions]\ndeny = ["shell(rm *)"]\n[tools]\nshell_enabled = false\n',
      "/p/rkat.toml": '[permissions]\nallow = ["*"]\ndeny = []\n[tools]\nshell_enabled = true\n',
    };
    const { config } = await load({ files });
    expect(config.permissions[0]).toEqual({ from: "user", rules: expect.objectContaining({ deny: ["shell(rm *)"] }) });
    expect(config.forbidden).toEqual(["shell"]);
    expect(config.tools.shell_enabled).toBe(false);
  });

  it("names the user's file where that one is wrong", async () => {
    const files = { "/h/.rkat/config.toml": "[agent]\nmax_turns = 0\n", "/p/rkat.toml": "[agent]\nmax_turns = 3\n" };
    await expect(load({ files })).rejects.toThrow("/h/.rkat/config.toml: agent.max_turns");
  });

  it("knows a project by .rkat/config.toml, too", async () => {
    const { sources } = await load({ files: { "/p/app/.rkat/config.toml": "", "/p/rkat.toml": "" } });
    expect(sources).toEqual(["/p/app/.rkat/config.toml"]);
  });

  it("refuses two files in one folder", async () => {
    const files = { "/p/rkat.toml": "", "/p/.rkat/config.toml": "" };
    await expect(load({ files })).rejects.toThrow(
      "/p/rkat.toml and /p/.rkat/config.toml both configure this project; keep one and remove the other",
    );
  });

  it("does not take the home file for a second project file", async () => {
    const { sources } = await load({ files: { ...home, "/h/rkat.toml": "" }, cwd: "/h/code" });
    expect(sources).toEqual(["/h/.rkat/config.toml", "/h/rkat.toml"]);
  });

  it("says which file cannot be read", async () => {
    const readFile = async (path: string) => {
      if (path === "/p/rkat.toml") throw new Error("EACCES");
      return undefined;
    };
    await expect(loadConfig({ cwd: "/p", home: "/h", env: {}, readFile })).rejects.toThrow(
      "/p/rkat.toml cannot be read; check its permissions",
    );
  });
});

describe("what a file may say", () => {
  it("carries every section", async () => {
    const toml = `
features = ["session-store"]
[agent]
provider = "lab"
[budget]
max_tokens = 10_000
max_duration = "1h30m"
[retry]
call_timeout = "disabled"
stall_timeout = { secs = 5 }
[shell]
timeout_secs = 0.5
[profiles.summarizer]
model = "base"
api = "ollama-generate"
stop = ["\\n\\n"]
[providers.lab]
base_url = "http://localhost:8000/v1"
api_key_env = "LAB_KEY"
[self_hosted.servers.gpu]
base_url = "http://gpu:8000/v1"
[self_hosted.models.small]
server = "gpu"
context_window = 8192
[models."gpt-next"]
context_window = 1_000_000
provider = "openai"
`;
    const { config } = await load({ files: { "/p/rkat.toml": toml } });
    expect(config).toMatchObject({
      features: ["session-store"],
      agent: { provider: "lab" },
      budget: { max_tokens: 10_000, max_duration_ms: 5_400_000 },
      retry: { call_timeout_ms: undefined, stall_timeout_ms: 5_000 },
      shell: { timeout_ms: 500 },
      profiles: { summarizer: { model: "base", api: "ollama-generate", stop: ["\n\n"] } },
      providers: { lab: { base_url: "http://localhost:8000/v1", api_key_env: "LAB_KEY" } },
      self_hosted: {
        servers: { gpu: { base_url: "http://gpu:8000/v1" } },
        models: { small: { server: "gpu", context_window: 8_192 } },
      },
      models: { "gpt-next": { context_window: 1_000_000, provider: "openai" } },
    });
  });

  it("reads limits in their older spelling", async () => {
    const toml = '[limits]\nbudget = 500\nmax_duration = "5m"\nmax_tool_calls = 0\n[budget]\nmax_tokens = 500\n';
    const { config } = await load({ files: { "/p/rkat.toml": toml } });
    expect(config.budget).toEqual({ max_tokens: 500, max_duration_ms: 300_000, max_tool_calls: 0 });
  });
});

describe("the environment", () => {
  it("overrides the file and is named among the sources", async () => {
    const { config, sources } = await load({
      files: { "/p/rkat.toml": '[agent]\nmodel = "of-file"\nmax_turns = 5\n[limits]\nbudget = 9\n' },
      env: { RKAT_MODEL: "of-env", RKAT_MAX_TOKENS: "2000", RKAT_MAX_DURATION: "30s", RKAT_PROVIDER: "" },
    });
    expect(config.agent).toMatchObject({ model: "of-env", max_turns: 5 });
    expect(config.budget).toEqual({ max_tokens: 2_000, max_duration_ms: 30_000 });
    expect(sources).toEqual(["/p/rkat.toml", "RKAT_MODEL", "RKAT_MAX_TOKENS", "RKAT_MAX_DURATION"]);
  });

  it("switches telemetry on and off", async () => {
    const files = { "/p/rkat.toml": "[telemetry]\nenabled = true\n" };
    const enabledBy = async (text: string) =>
      (await load({ files, env: { RKAT_TELEMETRY: text } })).config.telemetry.enabled;
    expect([await enabledBy(""), await enabledBy("true"), await enabledBy("false")]).toEqual([true, true, false]);
    await expect(enabledBy("yes")).rejects.toThrow('RKAT_TELEMETRY: telemetry.enabled is "yes"; write true or false');
  });

  it("chooses the capabilities", async () => {
    const featuresOf = async (text: string) => (await load({ env: { RKAT_FEATURES: text } })).config.features;
    expect(await featuresOf("session-store, memory-store")).toEqual(["session-store", "memory-store"]);
    expect(await featuresOf("none")).toEqual([]);
    await expect(featuresOf("session-stor")).rejects.toThrow(
      'RKAT_FEATURES: features.0 is "session-stor"; write one of "session-store", "memory-store", "session-compaction"',
    );
  });

  it("is named, not the file, when its value is bad", async () => {
    expect(await refusal("[agent]\nmax_turns = 5\n", { RKAT_MAX_TURNS: "many" })).toBe(
      'RKAT_MAX_TURNS: agent.max_turns is "many"; write a whole number of at least 1',
    );
  });

  it("never brings a key into the configuration", async () => {
    const env = { OPENAI_API_KEY: "sk-secret", RKAT_TOKEN: "secret-token", RKAT_OPENAI_API_KEY: "sk-secret" };
    expect(JSON.stringify(await load({ env }))).not.toMatch(/secret/);
  });
});

describe("refusals", () => {
  it.each([
    ["[agent]\nmodle = 'x'", "/p/rkat.toml: agent.modle is not a known key; did you mean agent.model?"],
    ["[agnet]\nmodel = 'x'", "/p/rkat.toml: agnet is not a known key; did you mean agent?"],
    ["[agent]\nmax_retries = 1", "/p/rkat.toml: agent.max_retries is not a known key; did you mean retry.max_retries?"],
    [
      "[providers.lab]\napi_key = 'sk-1'",
      "/p/rkat.toml: providers.lab.api_key is not a known key; did you mean providers.lab.api_key_env?",
    ],
    ["model = 'x'", "/p/rkat.toml: model is not a known key; did you mean agent.model?"],
  ])("name an unknown key and the nearest known one: %s", async (toml, message) => {
    expect(await refusal(toml)).toBe(message);
  });

  it.each([
    ["[agent]\nmax_turns = 0", "agent.max_turns is 0; write a whole number of at least 1"],
    [
      "[telemetry]\nendpoint = 'https://ada:secret@collector'",
      "telemetry.endpoint is not usable; write the address without a user name or password; OTEL_EXPORTER_OTLP_HEADERS holds what gives access",
    ],
    [
      "[agent]\nbudget_warning_threshold = 80",
      "agent.budget_warning_threshold is 80; write a fraction above 0 and up to 1, like 0.8",
    ],
    [
      "[agent]\nprovider = 'acme'",
      'agent.provider is "acme"; write one of anthropic, openai, gemini, self_hosted, offline, other, or add [providers.acme]',
    ],
    [
      "[retry]\nmax_delay = 'soon'",
      'retry.max_delay is "soon"; expected a duration like 30s, 5m or 1h30m, or {secs, nanos}',
    ],
    [
      "[retry]\nmax_delay = '0s'",
      'retry.max_delay is "0s"; write a duration longer than zero and of at most 24 days, like 30s',
    ],
    ["[retry]\ncall_timeout = 'off'", 'retry.call_timeout is "off"; write a duration like 45s, or "disabled"'],
    ["[retry]\ninitial_delay = '1m'", 'retry.initial_delay is "1m"; write a delay no longer than retry.max_delay'],
    ["[compaction]\nstrategy = 'x'", 'compaction.strategy is "x"; write one of "summary", "cascade"'],
    ["[tools]\nshell_enabled = 'yes'", 'tools.shell_enabled is "yes"; write true or false'],
    [
      "[tools]\nmob_enabled = true",
      "tools.mob_enabled is true; rkat has no such tools, so set it to false or remove the key",
    ],
    ["[rest]\nport = 70000", "rest.port is 70000; write a whole number from 0 to 65535"],
    ["[profiles.fast]\napi = 'chat'", "profiles.fast.model is missing; write a text in quotes"],
    [
      "[self_hosted.models.a]\nserver = 'gpu'",
      'self_hosted.models.a.server is "gpu"; add [self_hosted.servers.gpu] with its base_url',
    ],
    [
      "[limits]\nbudget = 1\n[budget]\nmax_tokens = 2",
      "budget.max_tokens is 2; limits.budget has another value, so remove one of the two",
    ],
    ["agent = 3", "agent is 3; make it a table, [agent]"],
    ["providers = 3", "providers is 3; make it a table, [providers]"],
  ])("name the key, the value and the fix: %s", async (toml, message) => {
    expect(await refusal(toml)).toBe(`/p/rkat.toml: ${message}`);
  });

  it.each([
    ["[providers.lab]\napi_key_env = 'sk-live-1234'"],
    ["[providers.lab]\nbase_url = 'https://me:sk-live-1234@lab.example/v1'"],
    ["[providers.lab]\napi_kee = 'sk-live-1234'"],
  ])("never repeat what could be a secret: %s", async (toml) => {
    expect(await refusal(toml)).not.toContain("sk-live-1234");
  });

  it("say where the TOML breaks, in one sentence", async () => {
    expect(await refusal("[agent]\nmodel = \n")).toMatch(
      /^\/p\/rkat\.toml is not valid TOML at line 2, column \d+: [^\n]+$/,
    );
  });

  it("carry every problem in their details", async () => {
    const error = await load({ files: { "/p/rkat.toml": "[agent]\nmax_turns = 0\nmodle = 1\n" } }).catch(
      (thrown) => thrown,
    );
    expect(error.details).toEqual({
      problems: [
        "/p/rkat.toml: agent.modle is not a known key; did you mean agent.model?",
        "/p/rkat.toml: agent.max_turns is 0; write a whole number of at least 1",
      ],
      unknown_keys: [{ source: "/p/rkat.toml", path: ["agent", "modle"], meant: ["agent", "model"] }],
    });
  });
});
