import { basename, extname, join } from "node:path";
import type { VaultTexts } from "../../ports/vault.ts";
import type { Markdown } from "./front-matter.ts";
import { handWritten } from "./numbered-files.ts";
import { readMarkdown, type VaultParts } from "./read-markdown.ts";

/** What a person wrote about an agent, in the agent's folder. */
export async function personsTexts(parts: VaultParts, folder: string): Promise<VaultTexts> {
  const profile = (await readMarkdown(parts, join(folder, "profile.md")))?.body.trim() ?? "";
  const commands = (await readMarkdown(parts, join(folder, "commands.md")))?.body ?? "";
  const notes = await handWritten(parts, join(folder, "notes"), /\.md$/i);
  return {
    ...(profile === "" ? {} : { profile }),
    commands: commandsIn(commands),
    notes: notes.map((note) => ({ title: titleOf(note), content: note.body })),
  };
}

/** A list has its items; a text without one, its lines. Headings are for the reader. */
function commandsIn(text: string): readonly string[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  const items = lines.flatMap((line) => /^[-*][ \t]+([^ \t].*)$/.exec(line)?.[1] ?? []);
  return items.length > 0 ? items : lines.filter((line) => line !== "" && !/^#+[ \t]/.test(line));
}

function titleOf({ name, fields, body }: Markdown & { readonly name: string }): string {
  const said = fields.get("title")?.trim() || /^# +(\S.*)$/m.exec(body)?.[1]?.trim();
  return said || basename(name, extname(name));
}
