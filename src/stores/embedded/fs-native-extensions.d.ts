/** Locks of the operating system, which end with whoever holds them; the package has no types of its own. */
declare module "fs-native-extensions" {
  /** Whether the file is ours alone now. */
  export function tryLock(fd: number): boolean;
  export function unlock(fd: number): void;
}
