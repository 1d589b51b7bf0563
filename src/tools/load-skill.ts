import { z } from "zod";
import { LOAD_SKILL } from "../contract/skill.ts";
import type { Tool } from "../ports/tool.ts";
import { defineTool } from "./define-tool.ts";

type Load = (
  sessionId: string,
  asked: { readonly name?: string | undefined; readonly file?: string | undefined },
) => Promise<string>;

/** The tool by which a model loads a skill, made when a session first has it. */
export function createLoadSkill(load: Load): () => Tool {
  let tool: Tool | undefined;
  return () => {
    tool ??= make(load);
    return tool;
  };
}

function make(load: Load): Tool {
  return defineTool({
    name: LOAD_SKILL,
    description:
      "Load a skill: its text follows the result and stays in the context. Without a name it lists the skills; with a file it shows a file that lies beside a skill.",
    input: z.strictObject({
      name: z.string().min(1).optional().describe("The skill's name, of those that are listed"),
      file: z.string().min(1).optional().describe("A file beside it, as the skill names it"),
    }),
    run: ({ name, file }, { sessionId }) => load(sessionId, { name, file }),
  });
}
