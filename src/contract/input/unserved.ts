import { z } from "zod";

const flag = z.boolean({ error: "write true or false" }).nullish();
const table = z.record(z.string(), z.unknown(), { error: "write an object" }).nullish();

const SkillRef = z.object({
  kind: z.literal("structured").optional().describe("the form of the reference; there is one"),
  source_uuid: z.string().describe("the source of the skill, as skills/list names it"),
  skill_name: z.string().describe("the name of the skill there"),
});
const skillRefs = z.array(SkillRef, { error: "write a list of {source_uuid, skill_name}" }).nullish();

/** The sentence each of {@link UNSERVED} is refused with. */
export const WHY_UNSERVED = {
  hooks_override: "there are no hooks on the wire",
  enable_schedule: "there are no scheduled turns",
  enable_workgraph: "there are no work graphs",
  enable_mob: "there are no mobs",
  enable_web_search: "there is no web search of the provider's; an MCP server may bring one",
  comms_name: "agents cannot send each other messages",
  peer_meta: "agents cannot send each other messages",
  auth_binding: "keys come from the environment of the runtime alone",
};
const because = (field: keyof typeof WHY_UNSERVED): string =>
  `leave it out, or let it ask for nothing: ${WHY_UNSERVED[field]}`;

/** Fields of the wire that ask for what this runtime does not have. Clients may send them, as long as they ask for nothing. */
export const UNSERVED = {
  hooks_override: table.describe(because("hooks_override")),
  enable_schedule: flag.describe(because("enable_schedule")),
  enable_workgraph: flag.describe(because("enable_workgraph")),
  enable_mob: flag.describe(because("enable_mob")),
  enable_web_search: flag.describe(because("enable_web_search")),
  comms_name: z.string({ error: "write a text" }).nullish().describe(because("comms_name")),
  peer_meta: table.describe(because("peer_meta")),
  auth_binding: table.describe(because("auth_binding")),
};

/** Fields that name skills; only those `skills/list` names are there. */
export const SKILL_FIELDS = {
  skill_refs: skillRefs.describe("skills for this turn, of those skills/list names"),
  preload_skills: skillRefs.describe("skills for the session, of those skills/list names"),
};

const DEPTH_MAX = 3;

/** True of false, of nothing, of an empty list, and of an object in which there is only that. */
export function asksForNothing(value: unknown, depth = 1): boolean {
  if (value === undefined || value === null || value === false || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  if (typeof value !== "object" || depth > DEPTH_MAX) return false;
  return Object.values(value).every((inner) => asksForNothing(inner, depth + 1));
}
