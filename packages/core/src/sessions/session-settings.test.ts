import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { SKILL_FIELDS, UNSERVED } from "../contract/input.ts";
import { MEMORY_RETRIEVAL } from "../contract/memory.ts";
import { CreateSession, StartTurn } from "../contract/session.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { ScriptedModel } from "../providers/scripted.ts";

const unavailable = (field: string) => ({
  code: "CAPABILITY_UNAVAILABLE",
  message: expect.stringMatching(new RegExp(`^${field}: there |^${field}: agents|^${field}: keys|^${field}: tools`)),
});
const notFound = { code: "SKILL_NOT_FOUND", message: expect.stringContaining("no-such-skill") };
const settled = (field: string) => ({
  code: "INVALID_PARAMS",
  message: expect.stringMatching(new RegExp(`^Cannot override ${field} `)),
});
const UNKNOWN_SKILL = [{ source_uuid: "a", skill_name: "no-such-skill" }];

/** What asks for something in every field that nothing here can do. */
const ASKS: Readonly<Record<keyof typeof UNSERVED, unknown>> = {
  enable_schedule: true,
  enable_workgraph: true,
  enable_mob: true,
  enable_web_search: true,
  auth_binding: { realm: "a", binding: "b" },
};

function open() {
  const { runtime, model } = scriptedRuntime(() => ({ text: "{}" }), {
    store: createInMemoryStore(),
    memory: {},
    compaction: true,
  });
  return { runtime, model };
}

describe("what is asked for and not there", () => {
  it.each([...Object.keys(UNSERVED), "external_tools"])(
    "[H1] [F2] %s is refused wherever it can be written",
    async (field) => {
      const { runtime, model } = open();
      const asked = field === "external_tools" ? [{ name: "a" }] : ASKS[field as keyof typeof ASKS]; // A key, by the list.
      const prompt = "Hello.";
      for (const initial_turn of ["run_immediately", "deferred"]) {
        const input = { prompt, initial_turn, [field]: asked };
        await expect(runtime.dispatch("createSession", input)).rejects.toMatchObject(unavailable(field));
      }
      const deferred = await runtime.dispatch("createSession", { prompt, initial_turn: "deferred" });
      for (const operation of ["startTurn", "resumeSession"] as const) {
        const turn = { session_id: deferred.session_id, prompt, [field]: asked };
        await expect(runtime.dispatch(operation, turn)).rejects.toMatchObject(unavailable(field));
      }
      expect(model.requests).toHaveLength(0);
      expect(await runtime.listSessions()).toHaveLength(1);
    },
  );

  it.each(Object.keys(SKILL_FIELDS))(
    "[H1] [D2] %s of a skill that is not there is refused, of one that is there not",
    async (field) => {
      const { runtime } = open();
      const prompt = "Hello.";
      const unknown = { prompt, [field]: UNKNOWN_SKILL };
      await expect(runtime.dispatch("createSession", unknown)).rejects.toMatchObject(notFound);
      const known = { prompt, [field]: [MEMORY_RETRIEVAL.key] };
      const { session_id } = await runtime.dispatch("createSession", known);
      await expect(runtime.dispatch("startTurn", { session_id, ...unknown })).rejects.toMatchObject(notFound);
      await runtime.dispatch("startTurn", { session_id, ...known });
      // It is told of memory's tools; without them there is nothing to tell.
      const without = { ...known, enable_memory: false };
      await expect(runtime.dispatch("createSession", without)).rejects.toMatchObject({ code: "SKILL_NOT_FOUND" });
    },
  );

  it("[H1] [G2] what asks for nothing is accepted", async () => {
    const { runtime } = open();
    const nothing = [null, { entries: [], disable: [] }, {}, undefined];
    for (const hooks_override of nothing) {
      const fields = Object.fromEntries(Object.keys(UNSERVED).map((field) => [field, null]));
      const input = {
        prompt: "Hello.",
        ...fields,
        hooks_override,
        enable_mob: false,
        skill_refs: [],
        preload_skills: [],
      };
      const { session_id } = await runtime.dispatch("createSession", { ...input, comms_name: "", peer_meta: {} });
      await runtime.dispatch("startTurn", { ...input, session_id, enable_memory: true, labels: {}, max_turns: null });
    }
  });
});

/** A value of each field, and what shows that it was heard. */
type Sample =
  | { readonly value: unknown; readonly with?: object }
  | { readonly refused: object; readonly value: unknown };

const BOTH: Readonly<Record<string, Sample>> = {
  idempotency_key: { value: "once" },
  prompt: { value: "Something else." },
  model: { value: "offline" },
  provider: { value: "nobody" },
  max_tokens: { value: 77 },
  system_prompt: { value: "Be brief." },
  output_schema: { value: { type: "object" } },
  turn_output_schema: { value: { type: "object" } },
  permissions: { value: { deny: ["shell"] } },
  // goals.test.ts shows one that is pursued.
  goal: { value: { until: {} }, refused: { code: "INVALID_PARAMS" } },
  structured_output_retries: { value: 0, with: { output_schema: { type: "object", required: ["a"] } } },
  provider_params: { value: { temperature: 0.5 } },
  additional_instructions: { value: ["Be polite."] },
  skill_references: { value: ["a"], refused: { code: "INVALID_PARAMS" } },
  ...Object.fromEntries(Object.entries(ASKS).map(([field, value]) => [field, { value, refused: unavailable(field) }])),
  ...Object.fromEntries(Object.keys(SKILL_FIELDS).map((field) => [field, { value: UNKNOWN_SKILL, refused: notFound }])),
  external_tools: { value: [{ name: "a" }], refused: unavailable("external_tools") },
  client_tools: { value: [{ name: "a" }] },
  hooks_override: { value: { disable: ["nobody"] }, refused: { code: "INVALID_PARAMS" } },
};

const CREATE: Readonly<Record<string, Sample>> = {
  ...BOTH,
  keep_alive: { value: true },
  initial_turn: { value: "deferred" },
  max_turns: { value: 3 },
  enable_builtins: { value: true },
  enable_shell: { value: true },
  enable_files: { value: true, with: { tool_preset: "workspace" } },
  enable_memory: { value: false },
  enable_agents: { value: true },
  tool_preset: { value: "none" },
  memory_scope: { value: "session" },
  history: { value: [{ role: "user", content: "Before." }] },
  tool_filter: { value: { Deny: ["memory_search"] } },
  budget_limits: { value: { max_tokens: 1 } },
  labels: { value: { team: "red" } },
  app_context: { value: { a: 1 } },
  shell_env: { value: { A: "b" } },
  compaction: { value: { recent_turn_budget: 2 } },
  comms_name: { value: "ada" },
  peer_meta: { value: { description: "reads" }, with: { comms_name: "ada" } },
};

/** What a session is made with is not changed by a turn of it. */
const AT_CREATION = Object.keys(CREATE).filter((field) => !(field in BOTH) && field !== "keep_alive");

const TURN: Readonly<Record<string, Sample>> = {
  ...BOTH,
  ...Object.fromEntries(AT_CREATION.map((field) => [field, { value: CREATE[field]?.value, refused: settled(field) }])),
  session_id: { value: "01900000-0000-7000-8000-ffffffffffff", refused: { code: "SESSION_NOT_FOUND" } },
  flow_tool_overlay: { value: { blocked_tools: ["memory_search"] } },
  clear_provider_params: { value: true },
  change_settings: { value: { max_tokens: 77 } },
  // No session of this test is busy; inbox.test.ts shows one that is.
  when_busy: { value: "later", refused: { code: "INVALID_PARAMS" } },
  // A session that has said nothing cannot be overtaken; turn-settings.test.ts shows one that was.
  after_seq: { value: -1, refused: { code: "INVALID_PARAMS" } },
  tool_results: { value: [{ tool_use_id: "c1", content: "a" }], refused: { code: "INVALID_PARAMS" } },
};

/** Any session takes further turns, which is all it asks for. */
const SAYS_NOTHING_OF_A_TURN = ["keep_alive"];

/** All that a call leaves behind, but for ids and times. */
async function traceOf(
  call: () => Promise<unknown>,
  model: ScriptedModel,
  left: () => Promise<unknown>,
): Promise<string> {
  const from = model.requests.length;
  const outcome = await call().then(
    (result) => ({ result }),
    (error) => ({ code: error.code, message: error.message }),
  );
  const requests = model.requests.slice(from);
  return JSON.stringify({ outcome, requests, left: await left() })
    .replaceAll(/[\da-f]{8}-[\da-f-]{27}/g, "id")
    .replaceAll(/"(created_at|updated_at|timestamp_ms)":[^,}]+/g, '"$1":0');
}

describe("every field of the wire acts or is refused", () => {
  const schemas = [
    { operation: "createSession", fields: Object.keys(CreateSession.shape), samples: CREATE },
    { operation: "startTurn", fields: Object.keys(StartTurn.shape), samples: TURN },
  ] as const;
  for (const { operation, fields, samples } of schemas) {
    it.each(fields.filter((field) => operation !== "startTurn" || !SAYS_NOTHING_OF_A_TURN.includes(field)))(
      `[H1] ${operation} %s`,
      async (field) => {
        const sample = samples[field];
        if (sample === undefined) throw new Error(`say in this test what ${field} of ${operation} does`);
        const trace = async (input: object): Promise<string> => {
          const store = createInMemoryStore();
          const { runtime, model } = scriptedRuntime(() => ({ text: "{}" }), { store, memory: {}, compaction: true });
          const start = { prompt: "Hello.", initial_turn: "deferred", provider_params: { seed: 1 } };
          const first = operation === "startTurn" ? await runtime.dispatch("createSession", start) : {};
          const call = () => runtime.dispatch(operation, { prompt: "Hi.", ...first, ...input });
          const left = async () => {
            const rows = await store.sessions.page({ max: 100 });
            await Promise.all(rows.map(({ session_id }) => store.locks.isHeld(session_id)));
            return Promise.all(rows.map(({ session_id }) => store.log.read(session_id, 1, 100)));
          };
          return traceOf(call, model, left);
        };
        const { with: besides = {} } = "with" in sample ? sample : {};
        const acted = await trace({ ...besides, [field]: sample.value });
        expect(acted).not.toBe(await trace({ ...besides }));
        if ("refused" in sample) expect(JSON.parse(acted).outcome).toMatchObject(sample.refused);
      },
    );
  }
});
