import { join } from "node:path";
import { RuntimeError } from "@rkat/core/contract/error";
import type { BroughtFile, LoadedConfig } from "@rkat/node/config/load-config";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { Option } from "commander";
import { canAsk, isAgreed } from "../chat/ask-person.ts";
import { type Call, command } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { counted, createPaint, type Io, writeJson } from "../io.ts";
import { loadHere } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

interface TrustFlags {
  readonly status?: boolean;
  readonly revoke?: boolean;
  readonly json?: boolean;
}

/** `rkat trust`. */
export const trustRow = command("trust", {
  text: "Allow this project's config, hooks and MCP servers: show what its rkat.toml, .rkat/config.toml and .rkat/mcp.toml start or send elsewhere, and its skills and sub-agents, and trust them as they are now. The decision is kept in ~/.rkat/trust; a file that changes is asked about again.",
  flags: () => [new Option("--status", "only show it"), new Option("--revoke", "withdraw the trust"), jsonFlag()],
  examples: [
    ["rkat trust", "on a terminal it asks first"],
    ["rkat trust --status", "what is trusted here, and what is left out"],
    ["RKAT_TRUST=1 rkat run hello", "for one command, without keeping it; --trust does the same"],
  ],
  notes: [["Exit codes", "0 everything here is trusted · 1 something is left out"]],
  run: ({ invocation, flags }: Call<TrustFlags>) => act(invocation, flags),
});

async function act(invocation: Invocation, flags: TrustFlags): Promise<void> {
  if (flags.status && flags.revoke)
    throw new RuntimeError("INVALID_PARAMS", "--status only shows and --revoke changes; use one of them");
  const loaded = await loadHere(invocation);
  if (flags.revoke) revoke(invocation, loaded);
  else if (!flags.status) await grant(invocation, loaded, flags.json === true);
  const { brought } = await loadHere(invocation);
  invocation.exitWith(brought.every(({ isObeyed }) => isObeyed) ? 0 : 1);
  print(invocation, brought, flags.json === true);
}

async function grant({ io }: Invocation, { brought, trust }: LoadedConfig, isJson: boolean): Promise<void> {
  const unknown = brought.filter(({ state }) => state !== "trusted");
  if (unknown.length === 0) return;
  if (canAsk(io)) {
    showRequests(io, unknown);
    if (!(await isAgreed(io, "Trust these files as they are now?"))) {
      io.stderr.write("Nothing changed: these files are left out until they are trusted.\n");
      return;
    }
  }
  for (const file of unknown) trust.remember(file);
  if (!isJson) io.stdout.write(`Trusted ${counted(unknown.length, "file")}; a change is asked about again.\n`);
}

/** Also for files that are gone: a later file of that name must be asked about. */
function revoke({ place }: Invocation, { brought, trust }: LoadedConfig): void {
  const { projectRoot, stateFolder } = place();
  const names = ["rkat.toml", join(".rkat", "config.toml"), join(".rkat", "mcp.toml"), join(".rkat", "sub-agents")];
  const known = [...names.map((name) => join(projectRoot, name)), join(stateFolder, "config.toml")];
  for (const path of new Set([...known, ...brought.map((file) => file.path)])) trust.forget(path);
}

function print({ io }: Invocation, brought: readonly BroughtFile[], isJson: boolean): void {
  if (isJson) {
    const files = brought.map(({ path, state, isObeyed, requests }) => {
      return { path, state, obeyed: isObeyed, wants: requests.map(({ text }) => text) };
    });
    writeJson(io, { ok: brought.every(({ isObeyed }) => isObeyed), files });
    return;
  }
  if (brought.length === 0)
    io.stdout.write("Nothing here needs trust: no file starts a program or names an address.\n");
  showRequests(io, brought, io.stdout);
}

/** Asks at a terminal whether to trust the project's files; without one it does nothing. */
export async function askForTrust(invocation: Invocation): Promise<void> {
  const { io } = invocation;
  if (!canAsk(io)) return;
  const { brought, trust } = await loadHere(invocation);
  const unknown = brought.filter(({ isObeyed }) => !isObeyed);
  if (unknown.length === 0) return;
  showRequests(io, unknown);
  if (!(await isAgreed(io, "Trust these files as they are now?"))) return;
  for (const file of unknown) trust.remember(file);
}

const STATES = {
  trusted: "trusted",
  untrusted: "not trusted",
  changed: "changed since it was trusted",
  damaged: "not trusted: its record in ~/.rkat/trust is damaged",
} as const;

/** Prints the requests of files, on stderr or the given output. */
function showRequests(io: Io, files: readonly BroughtFile[], output = io.stderr): void {
  const { bold, dim } = createPaint(output, io.env);
  for (const { path, requests, state } of files) {
    output.write(`${bold(withoutControls(path))} ${dim(`(${STATES[state]})`)}\n`);
    for (const { text } of requests) output.write(`  ${withoutControls(text)}\n`);
  }
}
