import type { CapabilityStatus, CatalogModel, ModelsCatalog } from "@rkat/core/contract/capability";
import { invalid } from "@rkat/core/contract/error";
import type { UsageReport } from "@rkat/core/contract/session-info";
import type { SkillRow } from "@rkat/core/contract/skill";
import type { Schedule } from "@rkat/core/contract/wire/schedule";
import type { SubAgent } from "@rkat/core/ports/sub-agent";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { withGeneral } from "@rkat/core/sub-agents/sub-agent-settings";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { LoadedConfig } from "@rkat/node/config/load-config";
import { type Call, type CommandRow, command, operation, print, show } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { alignColumns, costText, grouped, oneLine, type Paint, table } from "../io.ts";
import { type Opened, readConfiguration, withEmpty, withRuntime, withSessions } from "../open-runtime.ts";
import type { Invocation, ModelOutlook } from "../parts.ts";

const DESCRIPTION_CHARS_MAX = 80;

export const skillRows: readonly CommandRow[] = [
  command("skill", {
    text: "List and show skills: instructions in a folder with a SKILL.md, which a model loads when it needs them.",
    also: ["skills"],
    notes: [
      ["Where", ".rkat/skills, .agents/skills and .claude/skills of the project and of the home folder"],
      ["Trust", "a project's skills are left out until rkat trust has shown them"],
    ],
  }),
  operation("skill list", "listSkills", {
    text: "List the skills of the project, of the user and of rkat; one that a nearer one hides is dimmed.",
    opens: withSkills,
    examples: [["rkat skill list", "what load_skill offers a model here"]],
    view: ({ skills }, { paint }) => skillLines(skills, paint),
  }),
  operation("skill show SKILL", "readSkill", {
    opens: withSkills,
    usage: "NAME|SOURCE:NAME [options]",
    examples: [
      ["rkat skill show release-notes", "what a model that loads it is given"],
      ["rkat skill show release-notes --file template.md", "a file beside it"],
      ["rkat skill show ~/.rkat/skills:release-notes", "yours, where a project's hides it; as rkat skill list says"],
    ],
    input: ({ opened, arg }) => skillNamed(opened.runtime.dispatch, arg("skill") ?? ""),
    view: ({ body, files, allowed_tools }, { io: { stdout, stderr } }) => {
      print({ stdout }, stdout.isTerminal ? withoutControls(body) : body);
      if (files !== undefined) stderr.write(`Beside it, for --file: ${withoutControls(files.join(", "))}\n`);
      if (allowed_tools !== undefined)
        stderr.write(`Allowed while it is loaded: ${withoutControls(allowed_tools.join(", "))}\n`);
      return undefined;
    },
  }),
];

/** Each skill that is left out is named, not only the first. */
function withSkills(invocation: Invocation, use: (opened: Opened) => Promise<void>): Promise<void> {
  return withEmpty(invocation, use, { showsAll: true });
}

/** A skill as it was named: alone, or with the id or the name of its source before it. */
async function skillNamed(dispatch: Dispatch, text: string) {
  const at = text.lastIndexOf(":");
  const [source, skill_name] = [text.slice(0, Math.max(at, 0)), text.slice(at + 1)];
  if (source === "") return { skill_name };
  const { skills } = await dispatch("listSkills", {});
  const found = skills.find((row) => row.source.display_name === source);
  return { skill_name, source_uuid: found?.key.source_uuid ?? source };
}

export function skillLines(skills: readonly SkillRow[], { dim }: Paint): readonly string[] {
  if (skills.length === 0) return ["There are no skills here; a folder with a SKILL.md in .rkat/skills is one."];
  const rows = skills.map(({ name, source, description }) => [
    name,
    source.display_name,
    oneLine(description, DESCRIPTION_CHARS_MAX),
  ]);
  return alignColumns(rows).map((line, index) =>
    skills[index]?.is_active ? line : dim(`${line} (hidden by a nearer one)`),
  );
}

export const subAgentRows: readonly CommandRow[] = [
  command("sub-agent", {
    text: "List the sub-agents a model can delegate to.",
    also: ["sub-agents"],
    notes: [
      ["A sub-agent is made by", ".rkat/sub-agents/NAME.md, or [sub_agents.NAME] of rkat.toml; see docs/sub-agents.md"],
    ],
  }),
  command("sub-agent list", {
    text: "List the sub-agents of this folder and of yours, with their purpose.",
    flags: () => [jsonFlag()],
    examples: [
      ["rkat sub-agent list", "all sub-agents, with their purpose"],
      ["rkat sub-agent list --json | jq -r '.sub_agents[].name'", "for scripts"],
    ],
    run: async (call) => {
      const { agents, bounds } = await agentsHere(call.invocation);
      const note = bounds.enabled
        ? "Sessions have the tool agent, unless they say otherwise."
        : "Sessions have the tool agent only where they ask for it: sub_agents.enabled is false.";
      const rows = agents.map(({ name, model = "", description }) =>
        [name, model, description].map((text) => oneLine(text, DESCRIPTION_CHARS_MAX)),
      );
      show(call, { ...bounds, sub_agents: agents.map(toFileFields) }, () => [
        ...table(call.paint, ["NAME", "MODEL", "WHAT FOR"], rows),
        call.paint.dim(note),
      ]);
    },
  }),
  command("sub-agent show SUB-AGENT", {
    text: "Show a sub-agent: its purpose, what it may use, and its prompt.",
    flags: () => [jsonFlag()],
    examples: [["rkat sub-agent show code-reviewer", "with the prompt of its model"]],
    run: showSubAgent,
  }),
];

/** The sub-agents that sessions can delegate to, by the configuration that was read. */
export async function subAgentsIn({ config, subAgents }: Pick<LoadedConfig, "config" | "subAgents">) {
  return (await import("@rkat/core/composed-tools")).subAgentsOf({ subAgents }, config);
}

/** The sub-agents that sessions of this place can delegate to, and their settings. */
export async function agentsHere(invocation: Invocation) {
  const loaded = await readConfiguration(invocation);
  const { named: _rows, ...bounds } = loaded.config.sub_agents;
  return { agents: withGeneral(await subAgentsIn(loaded)), bounds };
}

async function showSubAgent(call: Call): Promise<void> {
  const name = call.arg("sub-agent");
  const agent = (await agentsHere(call.invocation)).agents.find((one) => one.name === name);
  if (agent === undefined) throw invalid(`there is no sub-agent ${name}; rkat sub-agent list shows them`);
  const { prompt, tools, from: _place, ...facts } = toFileFields(agent);
  const rows = Object.entries({ ...facts, tools: tools?.join(", ") })
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => [key, typeof value === "number" ? grouped(value) : String(value)]);
  show(call, toFileFields(agent), () => [...alignColumns(rows), "", withoutControls(prompt).trimEnd()]);
}

function toFileFields({ limits, maxTurns: max_turns, ...agent }: SubAgent) {
  return { ...agent, ...limits, ...(max_turns === undefined ? {} : { max_turns }) };
}

const USAGE_COLUMNS = ["CALLS", "INPUT", "CACHED", "OUTPUT", "COST"];

export const usageRow = operation("usage", "readUsage", {
  text: "Sum up tokens and cost over all sessions and agents: by model, label, day or token.",
  examples: [
    ["rkat usage", "what each model has cost"],
    ["rkat usage --by day --since 7d", "the last week, day by day"],
    ["rkat usage --by label --json | jq .total.usage.cost.amount", "for scripts"],
  ],
  notes: [
    ["Cost", "in US dollars, by the prices of its time; ≥ where some calls have no known price, see rkat models"],
  ],
  view: ({ groups, total, since, by }, { paint }) => {
    if (groups.length === 0) return `Nothing was used${since === undefined ? "" : ` since ${since}`}.`;
    const rows = [...groups.map(({ key, ...sums }) => usageOf(key || "(none)", sums)), usageOf("total", total)];
    const lines = table(paint, [by.toUpperCase(), ...USAGE_COLUMNS], rows);
    return lines.with(-1, paint.bold(lines.at(-1) ?? ""));
  },
});

function usageOf(key: string, { calls, usage }: UsageReport["total"]): readonly string[] {
  const { input_tokens, output_tokens, cache_read_tokens = 0, cost } = usage;
  const numbers = [calls, input_tokens, cache_read_tokens, output_tokens];
  return [
    key,
    ...numbers.map((number, at) => grouped(number).padStart(USAGE_COLUMNS[at]?.length ?? 0)),
    costText(cost),
  ];
}

export const blobRows: readonly CommandRow[] = [
  command("blob", {
    text: "Print a stored attachment or a full tool output.",
  }),
  operation("blob get BLOB", "readBlob", {
    text: "Write the bytes of a blob to stdout.",
    opens: withSessions,
    examples: [["rkat blob get sha256:… > output.txt", "the full text of an output that was cut"]],
    view: ({ media_type, data }, { io: { stdout }, arg }) => {
      const bytes = Buffer.from(data, "base64");
      const isText = media_type.startsWith("text/");
      if (stdout.isTerminal && !isText) {
        const message = `${arg("blob")} is ${media_type}, which no terminal shows; write it to a file`;
        throw invalid(message);
      }
      stdout.write(stdout.isTerminal ? withoutControls(new TextDecoder().decode(bytes)) : bytes);
      return undefined;
    },
  }),
];

export const whoamiRow = operation("whoami", "readAccess", {
  text: "Show your identity and scopes; on this machine every scope is allowed.",
  former: ["access"],
  examples: [
    ["rkat whoami", "what you may do here"],
    ["rkat whoami --json | jq -r '.scopes[]'", "for scripts"],
  ],
  notes: [["Tokens", "a server answers GET /access with the scopes of the request's token; see rkat token"]],
  view: ({ name = "you", scopes, labels }) => {
    const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
    return alignColumns([
      ["who", name],
      ["may", scopes.join(", ")],
      ["sessions", pairs.length === 0 ? "all" : `those with ${pairs.join(", ")}`],
    ]);
  },
});

export const modelsRow = operation("models", "readModels", {
  text: "List known models: newest first, with their context window, output limit and price.",
  examples: [
    ["rkat models", "known models, and which lack a key"],
    ["rkat models --json | jq '.providers[].default_model_id'", "for scripts"],
  ],
  notes: [
    ["Other models", "any name a provider knows works: rkat -m PROVIDER/MODEL, rkat -m ollama/llama3.2"],
    ["Prices", "US dollars for a million tokens in / out; one that is unknown is set under [prices.MODEL]"],
  ],
  view: async (catalog, { invocation, opened, paint: { bold, dim } }) => {
    const { providers } = await invocation.parts.inspectModels(opened.config);
    return [
      ...catalog.providers.flatMap((row) => [
        `${bold(withoutControls(row.provider))}  ${dim(keyNote(row.provider, providers))}`,
        ...modelLines(row),
        "",
      ]),
      dim("* is used when only the provider is named."),
    ];
  },
});

/** Whether a provider can be asked, in a few words. */
export function keyNote(provider: string, outlook: ModelOutlook["providers"]): string {
  const row = outlook.find((one) => one.provider === provider);
  if (row === undefined) return provider === "offline" ? "needs no key" : "";
  return row.hasKey ? `${row.keyVariable} is set` : `set ${row.keyVariable} to use these`;
}

function modelLines({ models, default_model_id }: ModelsCatalog["providers"][number]): readonly string[] {
  const size = (tokens: number | undefined): string => (tokens === undefined ? "?" : grouped(tokens));
  const rows = models.map(({ id, display_name, context_window, max_output_tokens, prices }) => [
    id === default_model_id ? " *" : "  ",
    id,
    display_name,
    `${size(context_window).padStart(9)} context`,
    `${size(max_output_tokens).padStart(7)} output`,
    priceText(prices),
  ]);
  return alignColumns(rows);
}

/** What a million tokens cost, in and out. */
export function priceText(prices: CatalogModel["prices"]): string {
  return prices === undefined ? "" : `$${prices.input} / $${prices.output}`;
}

export const capabilitiesRow = operation("capabilities", "readCapabilities", {
  text: "Show what this installation can do: which parts are there, and which are switched off.",
  examples: [["rkat capabilities", "each capability, and whether it is there"]],
  view: ({ capabilities }, { paint }) => {
    const rows = capabilities.map(({ id, description, status }) => ["", id, statusWord(status), description]);
    return alignColumns(rows).map((line, index) =>
      capabilities[index]?.status === "Available" ? line : paint.dim(line),
    );
  },
});

function statusWord(status: CapabilityStatus): string {
  if (status === "Available") return "yes";
  return "DisabledByPolicy" in status ? "switched off" : "no";
}

export const commsRows: readonly CommandRow[] = [
  command("comms", {
    text: "Send messages between sessions that have a --comms-name, and list them.",
    notes: [["They are read", "when the other session is free, by rkat serve or what else runs it; see docs/inbox.md"]],
  }),
  operation("comms send SESSION [BODY…]", "sendComms", {
    examples: [
      ['rkat comms send last --to reviewer "The branch is ready."', "from the last session to another, by its name"],
      ["rkat comms send last --to reviewer --kind peer_request --intent review", "a request, which a response names"],
    ],
    view: ({ kind, envelope_id, interaction_id }) => `${kind.replaceAll("_", " ")}: ${envelope_id ?? interaction_id}`,
  }),
  operation("comms peers SESSION", "listPeers", {
    examples: [["rkat comms peers last", "whom the session can write to"]],
    view: ({ peers }, { paint }) =>
      peers.length === 0
        ? "No other session has a comms_name; rkat run --comms-name NAME gives one."
        : table(
            paint,
            ["ID", "NAME", "DESCRIPTION"],
            peers.map(({ peer_id, name, meta }) => [
              ...[peer_id, name],
              oneLine(meta.description ?? "", DESCRIPTION_CHARS_MAX),
            ]),
          ),
  }),
];

const SCHEDULE_NAME_CHARS_MAX = 40;

export const scheduleRows: readonly CommandRow[] = [
  command("schedule", {
    text: "Create, list and change schedules: turns that the servers of this realm run at their times.",
    also: ["schedules"],
    notes: [["They run", "while rkat serve does, in any process of the realm; see docs/schedules.md"]],
  }),
  operation("schedule create [PROMPT…]", "createSchedule", {
    usage: "PROMPT [options]",
    opens: withRuntime,
    examples: [
      ['rkat schedule create "Sum up the night." --cron "0 9 * * 1-5" --timezone Europe/Berlin', "on workdays at nine"],
      ['rkat schedule create "Check the queue." --every 30m --session ID', "each half hour, in one session"],
      ['rkat schedule create "Send the report." --at 2026-12-01T09:00:00Z --name report', "once"],
    ],
    view: (schedule) => `Created ${schedule.schedule_id}: ${nextText(schedule)}.`,
  }),
  operation("schedule list", "listSchedules", {
    examples: [["rkat schedule list --label team=core", "those with a label"]],
    view: ({ schedules }, { paint }) =>
      schedules.length === 0
        ? "There are no schedules; rkat schedule create makes one."
        : table(paint, ["ID", "NAME", "STATE", "NEXT"], schedules.map(scheduleColumns)),
  }),
  operation("schedule show SCHEDULE", "readSchedule", {
    examples: [["rkat schedule show ID", "when it is due, and what it does"]],
    view: (schedule) => JSON.stringify(schedule, undefined, 2),
  }),
  operation("schedule update SCHEDULE", "updateSchedule", {
    examples: [["rkat schedule update ID --every 1h", "it keeps everything else"]],
    view: (schedule) => `Changed ${schedule.schedule_id}: ${nextText(schedule)}.`,
  }),
  operation("schedule pause SCHEDULE", "pauseSchedule", {
    examples: [["rkat schedule pause ID", "until rkat schedule resume ID"]],
    view: ({ schedule_id }) => `Paused ${schedule_id}.`,
  }),
  operation("schedule resume SCHEDULE", "resumeSchedule", {
    examples: [["rkat schedule resume ID", "from its next time on"]],
    view: (schedule) => `Resumed ${schedule.schedule_id}: ${nextText(schedule)}.`,
  }),
  operation("schedule delete SCHEDULE", "deleteSchedule", {
    examples: [["rkat schedule delete ID", "what runs goes on"]],
    view: ({ schedule_id }) => `Deleted ${schedule_id}.`,
  }),
  operation("schedule history SCHEDULE", "listOccurrences", {
    examples: [["rkat schedule history ID --limit 10", "the newest occurrences, and how they ended"]],
    view: ({ occurrences }) =>
      alignColumns(
        occurrences.map(({ due_at_utc, phase, session_id = "", failure_detail = "" }) => [
          ...[due_at_utc, phase, session_id],
          oneLine(failure_detail, DESCRIPTION_CHARS_MAX),
        ]),
      ),
  }),
];

function nextText({ next_due_at_utc: next, phase }: Schedule): string {
  if (phase === "paused") return "paused";
  return next === undefined || phase !== "active" ? "it is not due again" : `due next at ${next}`;
}

function scheduleColumns(schedule: Schedule): readonly string[] {
  const { schedule_id, name = "", phase, phase_reason = "" } = schedule;
  const state = phase_reason === "" ? phase : `${phase}: ${phase_reason}`;
  return [
    schedule_id,
    oneLine(name, SCHEDULE_NAME_CHARS_MAX),
    oneLine(state, DESCRIPTION_CHARS_MAX),
    nextText(schedule),
  ];
}
