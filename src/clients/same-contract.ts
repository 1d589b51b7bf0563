import { RuntimeError } from "../contract/error.ts";
import { CONTRACT_VERSION } from "../contract/version.ts";
import { isRecord } from "./fields.ts";

/** Throws CAPABILITY_UNAVAILABLE unless a server speaks this client's wire: before 1.0, the same major and minor. */
export function requireSameContract(version: unknown, server: string): void {
  const [major, minor] = partsOf(version);
  if (major === CONTRACT_VERSION.major && minor === CONTRACT_VERSION.minor) return;
  const ours = `${CONTRACT_VERSION.major}.${CONTRACT_VERSION.minor}`;
  const theirs = major === undefined ? "another one" : `${major}.${minor}`;
  throw new RuntimeError(
    "CAPABILITY_UNAVAILABLE",
    `${server} speaks ${theirs} and this client the wire contract ${ours}; use versions that belong together`,
  );
}

/** `initialize` writes a version as a text, `capabilities/get` as an object. */
function partsOf(version: unknown): readonly (number | undefined)[] {
  if (isRecord(version)) return [Number(version.major), Number(version.minor)];
  const [, major, minor] = /^(\d+)\.(\d+)\.\d+$/.exec(String(version)) ?? [];
  return major === undefined ? [] : [Number(major), Number(minor)];
}
