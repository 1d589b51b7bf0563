import { createRequire } from "node:module";
import { arch, platform } from "node:os";

/** Takes the file for us alone; whether it is ours now. The system ends a lock with whoever holds it. */
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

/** What the package's addon does; offset and length 0 are the whole file. */
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
  const require = createRequire(import.meta.url);
  try {
    // The package's own way to this file goes through a dozen modules, which took a sixth of the opening of a folder.
    return require(`fs-native-extensions/prebuilds/${platform()}-${arch()}/fs-native-extensions.node`);
  } catch {
    return require("fs-native-extensions/binding");
  }
}
