import { cliFlag } from "./input.ts";
import { fieldOf, z } from "./schema.ts";

const source_uuid = z.string().describe("the source it comes from");
const SkillKey = z.object({ source_uuid, skill_name: z.string().describe("its name there") });
export type SkillKey = z.infer<typeof SkillKey>;

/** A skill as `skills/list` lists it. */
export const SkillRow = z.object({
  key: SkillKey.describe("its key across sources"),
  name: z.string().describe("its name"),
  description: z.string().describe("its description"),
  scope: z.string().describe("where it holds: builtin, user, project, or code that composed the runtime"),
  source: z
    .object({
      source_uuid,
      display_name: z.string().describe("its name for people"),
      transport_kind: z.enum(["embedded", "filesystem", "git", "http", "stdio"]).describe("how it is reached"),
      fingerprint: z.string().describe("changes when the skill does"),
      status: z.enum(["active", "disabled", "retired"]).describe("whether it is used"),
    })
    .describe("where it comes from"),
  is_active: z.boolean().describe("whether sessions have it"),
  shadowed_by: SkillKey.optional().describe("the nearer skill of the same name, which sessions have in its place"),
});
export type SkillRow = z.infer<typeof SkillRow>;

export const SkillText = SkillRow.extend({
  body: z.string().describe("the skill itself as a text, or the file that was asked for"),
  files: z.array(z.string()).optional().describe("the files beside it, by their names, where there are any"),
  allowed_tools: z
    .array(z.string())
    .optional()
    .describe("calls that need no approval while it is loaded, as patterns of rules"),
});
export type SkillText = z.infer<typeof SkillText>;

/** What can name a skill. */
export const SKILL_NAME = /^[a-z0-9-]{1,64}$/;
export const DESCRIPTION_CHARS_MAX = 1_024;
/** Of its `SKILL.md`, or what code gives in its place. */
export const SKILL_BYTES_MAX = 65_536;
/** Of the files beside it. */
export const SKILL_FILES_MAX = 64;
export const SKILL_FILES_BYTES_MAX = 1_048_576;

/** A source's id: it follows from what is the same wherever the source is copied to. */
export function sourceUuid(hash: (text: string) => string, scope: string, folder: string): string {
  const hex = hash(`rkat skills\0${scope}\0${folder}`);
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    "-",
  );
}

/** The name of the tool by which a model loads one. */
export const LOAD_SKILL = "load_skill";
/** What a notice says it is about that holds a skill's text. */
export const SKILL_NOTICE = "skill";

/** What `meerkat_skills` takes: one tool for the two operations on skills. */
export const SkillsTool = z.strictObject({
  action: z.enum(["list", "inspect"], { error: 'write "list" or "inspect"' }).describe("list them, or read one"),
  skill_key: fieldOf(SkillRow, "key").optional().describe("which to read, by its key of the list"),
  file: z.string().optional().describe("a file beside it to read, of those that reading it lists"),
  source: z.string().optional().describe("list only those of this source_uuid"),
});

/** The rows of the table about skills. */
export const SKILL_OPERATIONS = {
  listSkills: {
    summary: "List the skills of this runtime, including those hidden by a nearer one of the same name.",
    input: z.object({
      source_uuid: cliFlag("--source <uuid>", z.string().optional().describe("only those of this source")),
    }),
    output: z.object({ skills: z.array(SkillRow).describe("the skills") }),
    rpc: "skills/list",
    http: "GET /skills",
    mcp: "meerkat_skills",
    cli: "rkat skill list",
    scope: "read",
    sees: "public",
  },
  readSkill: {
    summary: "Read a skill's text, or one of its files, as a model that loads the skill sees it.",
    input: z.object({
      source_uuid: cliFlag(
        "--source <uuid>",
        z.string().optional().describe("its source; without it, the one that sessions have"),
      ),
      skill_name: cliFlag("NAME", z.string().min(1, "write a name").describe("the skill, by its name")),
      file: cliFlag("--file <name>", z.string().min(1, "write a name").optional().describe("a file beside it")),
    }),
    output: SkillText,
    rpc: "skills/inspect",
    http: "GET /skills/{source_uuid}/{skill_name}",
    mcp: "meerkat_skills",
    mcpInput: () => SkillsTool,
    mcpSummary: "List the skills of this server (list), or read the one a key of the list names (inspect).",
    cli: "rkat skill show NAME",
    scope: "read",
    sees: "public",
  },
} as const;
