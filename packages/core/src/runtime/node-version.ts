const NODE_OLDEST = "22.18";

/** The error for an unsupported version of Node; undefined for a supported one. */
export function nodeFault(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = NODE_OLDEST.split(".").map(Number);
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return undefined;
  return `rkat needs Node ${NODE_OLDEST} or newer; this is Node ${version}.`;
}
