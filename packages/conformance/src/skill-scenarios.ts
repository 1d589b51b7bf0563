import type { Scenario } from "./scenario.ts";
import { asked, endedWith, said } from "./turn-scenarios.ts";

/** The skill that every target works with: it lies in the home folder of the run, so it needs no trust. */
export const CONFORMANCE_SKILL = {
  path: [".rkat", "skills", "feeding-herons", "SKILL.md"],
  text: "---\nname: feeding-herons\ndescription: How herons are fed.\n---\n\nFeed them at dusk.\n",
} as const;

/** What a source is named by follows from its kind and its folder alone, so it is the same on every machine. */
const KEY = { source_uuid: "72b6f7ac-7380-8bf5-abc4-79bd54f5ce01", skill_name: "feeding-herons" };
const ROW = {
  key: KEY,
  name: "feeding-herons",
  description: "How herons are fed.",
  scope: "user",
  source: { source_uuid: KEY.source_uuid, transport_kind: "filesystem", status: "active" },
  is_active: true,
};
const RESOLVED = { type: "skills_resolved", skills: [KEY], injection_bytes: 96 } as const;

/** Skills, named by whoever asks. */
export const SKILLS: readonly Scenario[] = [
  {
    name: "skills",
    title: "skills are listed and read, and one that is named is loaded before the prompt, once",
    needs: ["skills", "turns of unkept sessions"],
    steps: [
      { call: "listSkills", input: { source_uuid: KEY.source_uuid }, result: { skills: [ROW] } },
      { call: "readSkill", input: { ...KEY }, result: { ...ROW, body: "Feed them at dusk." } },
      { call: "readSkill", input: { ...KEY, file: "../SKILL.md" }, error: { code: "SKILL_RESOLUTION_FAILED" } },
      { call: "readSkill", input: { ...KEY, skill_name: "none" }, error: { code: "SKILL_NOT_FOUND" } },
      {
        call: "createSession",
        input: { prompt: "Hello, {run}.", model: "conformance-plain", tool_preset: "none" },
        keep: { session: "session_id" },
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Feed them, {run}.", skill_refs: [KEY] },
        result: { text: "You said: Feed them, {run}." },
        events: [
          RESOLVED,
          asked("Feed them, {run}."),
          ...said(0, "You said: Feed them, {run}."),
          ...endedWith("You said: Feed them, {run}.", { input_tokens: 20, output_tokens: 10 }),
        ],
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Again, {run}.", skill_refs: [KEY] },
        events: [
          asked("Again, {run}."),
          ...said(0, "You said: Again, {run}."),
          ...endedWith("You said: Again, {run}.", { input_tokens: 30, output_tokens: 15 }),
        ],
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "More.", skill_refs: [{ ...KEY, skill_name: "none" }] },
        error: { code: "SKILL_NOT_FOUND" },
      },
    ],
  },
];
