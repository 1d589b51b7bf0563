import { resolve } from "node:path";
import type { Diff, ToolCall, ToolCallContent, ToolCallLocation, ToolKind } from "@agentclientprotocol/sdk";
import type { Content } from "@rkat/core/contract/message";
import { promptBlocks } from "./prompt-content.ts";

export interface Called {
  readonly id: string;
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

const KINDS: Readonly<Record<string, ToolKind>> = {
  shell: "execute",
  shell_jobs: "execute",
  shell_job_status: "execute",
  shell_job_cancel: "execute",
  read_text_file: "read",
  write_text_file: "edit",
  memory_search: "search",
  search_project_history: "search",
  recall_output: "search",
  task_create: "think",
  task_get: "think",
  task_list: "think",
  task_update: "think",
};

const TITLE_CHARS_MAX = 200;

/** A call as an editor shows it: what kind it is, which files it is about, and what it would change in them. */
export function describeCall({ id, name, args }: Called, root: string): ToolCall {
  const call = { toolCallId: id, name, rawInput: args };
  if (name === "apply_patch") return { ...call, ...describePatch(diffsOf(text(args.patch), root), root) };
  const kind = KINDS[name] ?? "other";
  const path = text(args.path);
  if (kind === "execute" && name === "shell") return { ...call, kind, title: short(text(args.command) || name) };
  if (kind !== "read" && kind !== "edit") return { ...call, kind, title: name };
  const absolute = resolve(root, path);
  const locations = [{ path: absolute, ...(typeof args.line === "number" ? { line: args.line } : {}) }];
  if (kind === "read") return { ...call, kind, title: short(`Read ${path}`), locations };
  const content: ToolCallContent[] = [{ type: "diff", path: absolute, newText: text(args.content) }];
  return { ...call, kind, title: short(`Write ${path}`), locations, content };
}

function describePatch(files: readonly FileDiff[], root: string): Pick<ToolCall, "kind" | "title"> {
  const isAll = (kind: FileDiff["kind"]): boolean => files.length > 0 && files.every((file) => file.kind === kind);
  const names = files.map(({ name }) => name).join(", ");
  const locations: ToolCallLocation[] = files.map(({ name }) => ({ path: resolve(root, name) }));
  const content = files.flatMap(({ diffs }) => diffs.map((diff): ToolCallContent => ({ type: "diff", ...diff })));
  const kind = isAll("delete") ? "delete" : isAll("move") ? "move" : "edit";
  const shown = { locations, ...(content.length === 0 ? {} : { content }) };
  return { kind, title: short(names === "" ? "apply_patch" : `Edit ${names}`), ...shown };
}

export function resultContent(content: Content): ToolCallContent[] {
  return promptBlocks(content).map((block) => ({ type: "content", content: block }));
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function short(title: string): string {
  return title.length <= TITLE_CHARS_MAX ? title : `${title.slice(0, TITLE_CHARS_MAX)}…`;
}

interface FileDiff {
  readonly name: string;
  readonly kind: "add" | "change" | "delete" | "move";
  /** One for each place that changes; a file that goes has none. */
  readonly diffs: readonly Diff[];
}

const DIFFS_MAX = 200;
const FILE_LINE = /^\*\*\* (Add|Update|Delete) File: (.+)$/;
const MOVE_LINE = /^\*\*\* Move to: (.+)$/;

/**
 * The changes of a patch as an editor shows them, place by place. It reads what the model wrote, before the patch is
 * known to fit: a line that is none of a patch is passed over.
 */
function diffsOf(patch: string, root: string): readonly FileDiff[] {
  const sections: { verb: string; name: string; moveTo?: string; hunks: string[][] }[] = [];
  for (const line of patch.split("\n")) {
    const [, verb, name] = FILE_LINE.exec(line) ?? [];
    const section = sections.at(-1);
    const [, moveTo] = MOVE_LINE.exec(line) ?? [];
    if (verb !== undefined && name !== undefined) sections.push({ verb, name: name.trim(), hunks: [[]] });
    else if (section === undefined || line.startsWith("*** End")) continue;
    else if (moveTo !== undefined) section.moveTo = moveTo.trim();
    else if (line.startsWith("@@")) section.hunks.push([]);
    else section.hunks.at(-1)?.push(line);
  }
  return sections.map(({ verb, name, moveTo, hunks }) => {
    const path = resolve(root, moveTo ?? name);
    if (verb === "Delete") return { name, kind: "delete", diffs: [] };
    const changed = hunks.filter((lines) => lines.some((line) => /^[+-]/.test(line))).slice(0, DIFFS_MAX);
    if (verb === "Add") return { name, kind: "add", diffs: [{ path, oldText: null, newText: side(changed[0], "+") }] };
    const diffs = changed.map((lines) => ({ path, oldText: side(lines, "-"), newText: side(lines, "+") }));
    return { name: moveTo ?? name, kind: moveTo === undefined ? "change" : "move", diffs };
  });
}

/** The lines of a place as they were ("-") or will be ("+"). */
function side(lines: readonly string[] = [], sign: "+" | "-"): string {
  const own = lines.filter((line) => line.startsWith(sign) || line.startsWith(" ") || line === "");
  return own.map((line) => `${line.slice(1)}\n`).join("");
}
