import { RuntimeError } from "../contract/error.ts";

/** Throws INVALID_PARAMS unless the options are an object of these names: one that is ignored has no effect, unseen. */
export function requireNames(options: object, names: readonly string[]): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new RuntimeError("INVALID_PARAMS", "give the options as an object");
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown === undefined) return;
  const meant = nearest(unknown, names);
  const advice = meant === undefined ? `there are ${names.join(", ")}` : `did you mean ${meant}?`;
  throw new RuntimeError("INVALID_PARAMS", `${unknown} is no option; ${advice}`);
}

/** The name that shares most of its beginning and end with what was written; undefined when less than half is shared. */
function nearest(written: string, names: readonly string[]): string | undefined {
  const [best] = names
    .map((name) => ({ name, shared: sharedLetters(plain(written), plain(name)) }))
    .filter(({ name, shared }) => shared * 2 > Math.max(plain(written).length, plain(name).length))
    .sort((a, b) => b.shared - a.shared);
  return best?.name;
}

/** `max_tokens` is how the wire spells `maxTokens`. */
function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, "");
}

function sharedLetters(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let start = 0;
  while (start < most && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < most - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  return start + end;
}
