import type { Command } from "commander";
import type { SkillRow } from "../../../contract/skill.ts";
import type { Dispatch } from "../../../service/dispatch.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { addFieldFlags, fieldsOf, jsonFlag } from "../flags.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { alignColumns, createPaint, type Io, oneLine, writeJson } from "../io.ts";
import { createEmpty, loadHere } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

interface JsonFlags {
  readonly json?: boolean;
}

/** Declares `rkat skill`. */
export function addSkillCommand(program: Command, invocation: Invocation): void {
  const skill = holdCommands(program.command("skill").alias("skills"))
    .summary("show the skills that sessions can load")
    .description("Shows skills: knowledge in a folder with a SKILL.md, which a model loads when it is needed.");
  const list = addFieldFlags(skill.command("list"), "listSkills")
    .summary("list skills")
    .description("Lists the skills of the project, of the user and of rkat; one that a nearer one hides is dimmed.")
    .addOption(jsonFlag())
    .action((flags: JsonFlags) =>
      withSkills(invocation, async ({ dispatch }) => {
        const answer = await dispatch("listSkills", fieldsOf("listSkills", flags));
        if (flags.json) writeJson(invocation.io, answer);
        else showSkills(invocation.io, answer.skills);
      }),
    );
  describeHelp(list, { examples: [["rkat skill list", "what load_skill offers a model here"]] });
  const show = addFieldFlags(skill.command("show"), "readSkill")
    .summary("show a skill's text")
    .description("Shows a skill's text as a model is given it, or one of the files beside it.")
    .argument("<skill>")
    .usage("NAME|SOURCE:NAME")
    .addOption(jsonFlag())
    .action((skill: string, flags: JsonFlags) =>
      withSkills(invocation, async ({ dispatch }) => {
        const named = await skillNamed(dispatch, skill);
        const answer = await dispatch("readSkill", { ...fieldsOf("readSkill", flags), ...named });
        if (flags.json) return writeJson(invocation.io, answer);
        const { stdout, stderr } = invocation.io;
        const { body, files, allowed_tools } = answer;
        stdout.write(`${stdout.isTerminal ? withoutControls(body) : body}\n`);
        if (files !== undefined) stderr.write(`Beside it, for --file: ${withoutControls(files.join(", "))}\n`);
        if (allowed_tools !== undefined)
          stderr.write(`Allowed while it is loaded: ${withoutControls(allowed_tools.join(", "))}\n`);
      }),
    );
  describeHelp(show, {
    examples: [
      ["rkat skill show release-notes", "what a model is told that loads it"],
      ["rkat skill show release-notes --file template.md", "a file beside it"],
      ["rkat skill show ~/.rkat/skills:release-notes", "yours, where a project's hides it; as rkat skill list says"],
    ],
  });
  describeHelp(skill, {
    examples: [
      ["rkat skill list", "what there is, and where it comes from"],
      ['rkat run "write the release notes" --skill release-notes', "load one before the prompt"],
    ],
    notes: [
      ["Where", ".rkat/skills, .agents/skills and .claude/skills of the project and of the home folder"],
      ["Trust", "a project's skills are left out until rkat trust has shown them"],
    ],
  });
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

/** A runtime that has the skills of this place, and nothing that was kept. */
async function withSkills(
  invocation: Invocation,
  use: (runtime: { readonly dispatch: Dispatch }) => Promise<void>,
): Promise<void> {
  const { config, skills, leftOut, problems } = await loadHere(invocation);
  for (const sentence of leftOut === undefined ? problems : [leftOut, ...problems]) invocation.warnOnce(sentence);
  const runtime = await createEmpty(invocation, config, skills);
  try {
    await use(runtime);
  } finally {
    await runtime.close();
  }
}

const DESCRIPTION_CHARS_MAX = 72;

/** A line a skill. */
export function showSkills(io: Io, skills: readonly SkillRow[]): void {
  if (skills.length === 0) {
    io.stdout.write("There are no skills here; a folder with a SKILL.md in .rkat/skills is one.\n");
    return;
  }
  const { dim } = createPaint(io.stdout, io.env);
  const rows = skills.map(({ name, source, description }) => [
    name,
    withoutControls(source.display_name),
    oneLine(description, DESCRIPTION_CHARS_MAX),
  ]);
  for (const [index, line] of alignColumns(rows).entries()) {
    io.stdout.write(`${skills[index]?.is_active ? line : dim(`${line} (hidden by a nearer one)`)}\n`);
  }
}
