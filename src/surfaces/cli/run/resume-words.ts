/**
 * Ends a bare `--resume` where its value ends. The parser would take the next word for the value, whatever it is, and
 * `rkat --resume go on` asks for the last session with the prompt "go on".
 */
export function settleResume(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  const flags = end < 0 ? args : args.slice(0, end);
  const at = flags.indexOf("--resume");
  if (at < 0) return args;
  const next = flags[at + 1] ?? "";
  const [value, taken] = SELECTOR.test(next) ? [next, 2] : ["last", 1];
  return args.toSpliced(at, taken, `--resume=${value}`);
}

/** Ids count milliseconds in their first digits, so until the year 2527 each begins with 0; hardly a prompt does. */
const SELECTOR = /^(?:last|~\d*|(?:[\w-]+:)?0[0-9a-f]{3}[0-9a-f-]*)$/i;
