import { createRequire } from "node:module";
import { arch, platform } from "node:os";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { packageFile } from "@rkat/core/ports/package-file";

/** Tries to lock the file exclusively; returns whether it succeeded. The system releases a lock with its holder. */
export function tryLock(fd: number): boolean {
  try {
    loaded().tryLock(fd, 0, 0, true);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EAGAIN") return false;
    throw error;
  }
}

export function unlock(fd: number): void {
  loaded().unlock(fd, 0, 0);
}

/** The functions of the package's addon; offset and length 0 mean the whole file. */
interface Locks {
  tryLock(fd: number, offset: number, length: number, isExclusive: boolean): void;
  unlock(fd: number, offset: number, length: number): void;
}

let locks: Locks | undefined;

function loaded(): Locks {
  locks ??= load();
  return locks;
}

function load(): Locks {
  // Deno would crash: its libuv lacks a symbol that the addon needs.
  if ("Deno" in globalThis)
    throw unusable("Deno cannot load its native addon for file locks; run the program with Node");
  try {
    // The package's own loader imports a dozen modules, a sixth of the time to open a folder.
    const name = `fs-native-extensions/prebuilds/${platform()}-${arch()}/fs-native-extensions.node`;
    return createRequire(import.meta.url)(name);
  } catch {
    return loadFromPackage();
  }
}

/** A bundle does not see the dependencies of our package. */
function loadFromPackage(): Locks {
  try {
    const require = createRequire(packageFile("@rkat/node", "package.json") ?? import.meta.url);
    return require("fs-native-extensions/binding");
  } catch (cause) {
    const [reason] = messageOf(cause).split("\n", 1);
    const advice = "install it beside the program, which must be an ES module (docs/bundling.md)";
    throw unusable(`fs-native-extensions cannot be loaded (${reason}); ${advice}`, cause);
  }
}

function unusable(why: string, cause?: unknown): RuntimeError {
  return new RuntimeError("CAPABILITY_UNAVAILABLE", `a state folder cannot be used: ${why}`, { cause });
}
