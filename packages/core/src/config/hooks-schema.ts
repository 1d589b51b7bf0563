import { HookEntries, type HookEntry } from "../contract/hook.ts";
import { z } from "../contract/schema.ts";
import { common, TIMER_MS_MAX, whole } from "./values.ts";

/** Commands that watch and guard the steps of turns. */
export const Hooks = z.strictObject({
  entries: HookEntries.default([]).describe("commands that are called at steps of a turn; [hooks.md](hooks.md)"),
  default_timeout_ms: whole(1, TIMER_MS_MAX).default(5_000).meta(common("the timeout of hooks that set none")),
  payload_max_bytes: whole(1).default(131_072).describe("the largest payload of a hook; longer texts are cut"),
  background_max_concurrency: whole(1)
    .default(32)
    .describe("how many background hooks run at once; further ones are skipped, with an event"),
});

/** Hooks of the user's own file and of a project's: nothing that a project says takes one of the user's away. */
export function withUsersHooks(users: readonly HookEntry[], others: readonly HookEntry[]): HookEntry[] {
  return [...users, ...others.filter(({ id }) => !users.some((one) => one.id === id))];
}
