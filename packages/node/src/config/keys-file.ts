import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { invalid } from "@rkat/core/contract/error";

type Env = Readonly<Record<string, string | undefined>>;

const BYTES_MAX = 65_536;
const OTHERS = 0o077;

/** The file with the keys that the user stored at the first run. */
export function keysFileOf(home: string): string {
  return join(home, ".rkat", "keys");
}

/** The environment with the stored keys below it; a file that others can read is left out with a sentence. */
export function withStoredKeys(
  env: Env,
  home: string,
  warn: (sentence: string) => void,
): Record<string, string | undefined> {
  return { ...readKeys(home, warn), ...env };
}

function readKeys(home: string, warn: (sentence: string) => void): Readonly<Record<string, string>> {
  const path = keysFileOf(home);
  try {
    const { mode, size } = statSync(path);
    if ((mode & OTHERS) !== 0 || size > BYTES_MAX) {
      const why = size > BYTES_MAX ? `it has ${size} bytes` : `other users can read its keys; run: chmod 600 ${path}`;
      warn(`${path} is left out, since ${why}`);
      return {};
    }
    const lines = readFileSync(path, "utf8").split("\n");
    return Object.fromEntries(
      lines.flatMap((line) => {
        const [, name, key] = /^\s*([A-Za-z_]\w*)=(\S+)\s*$/.exec(line) ?? [];
        return name === undefined || key === undefined ? [] : [[name, key]];
      }),
    );
  } catch (thrown) {
    const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
    if (code !== "ENOENT" && code !== "ENOTDIR") warn(`${path} is left out, since it cannot be read (${code})`);
    return {};
  }
}

/** Stores a key, in a file that only its owner can read; throws where a file with other keys is left out. */
export function storeKey(home: string, name: string, key: string): void {
  const path = keysFileOf(home);
  const problems: string[] = [];
  const stored = readKeys(home, (sentence) => problems.push(sentence));
  if (problems[0] !== undefined) throw invalid(problems[0]);
  const lines = Object.entries({ ...stored, [name]: key }).map(([one, value]) => `${one}=${value}\n`);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const beside = `${path}.${randomUUID()}.new`;
  writeFileSync(beside, lines.join(""), { mode: 0o600, flag: "wx" });
  renameSync(beside, path);
}
