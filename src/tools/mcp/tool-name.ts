import { hash } from "node:crypto";

/** What every provider accepts as the name of a tool. */
const NAME_CHARS_MAX = 64;
const HASH_CHARS = 8;

/**
 * The name a server's tool is offered under, by the two names alone: it is the same in every session, whichever other
 * servers answer. A name that had to be changed, or that another server's tool could have as well, ends in a hash.
 */
export function offeredName(server: string, tool: string): string {
  const [safeServer, safeTool] = [safe(server), safe(tool)];
  const name = `mcp__${safeServer}__${safeTool}`;
  const isKept = safeServer === server && safeTool === tool && name.length <= NAME_CHARS_MAX;
  // `a` with `b__c` and `a__b` with `c` would be one.
  if (isKept && !server.includes("__") && !server.endsWith("_")) return name;
  const mark = hash("sha256", `${server}\0${tool}`).slice(0, HASH_CHARS);
  return `${name.slice(0, NAME_CHARS_MAX - HASH_CHARS - 1)}_${mark}`;
}

function safe(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9_-]/g, "_");
}
