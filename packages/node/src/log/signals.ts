import { type FSWatcher, watch } from "node:fs";
import { messageOf } from "@rkat/core/contract/error";
import type { Signals } from "@rkat/core/ports/signals";
import { createSessionListeners } from "@rkat/core/stores/session-listeners";

export interface FolderSignalParts {
  /** Where the segments are. */
  readonly folder: string;
  /** Reads what other processes appended; `grown` is called for each session that they appended to. */
  catchUp(): void;
  /** Where a session's log ends, as far as it is read. */
  endOf(sessionId: string): number;
  readonly warn: (sentence: string) => void;
}

export interface FolderSignals extends Signals {
  /** Takes in that another process appended to a session. */
  grown(sessionId: string): void;
}

/** Changes that follow each other quickly are looked at together. */
const GATHER_MS = 5;
/** Logs that somebody hears are looked at this often whatever the system tells, and oftener where it tells nothing. */
const LOOK_MS = 1_000;
const LOOK_MS_BLIND = 50;

/**
 * Other processes of the folder tell by appending: the system wakes us when a segment grows. Nobody hears, nothing is
 * watched; nothing grows, next to nothing is done.
 */
export function createFolderSignals({ folder, catchUp, endOf, warn }: FolderSignalParts): FolderSignals {
  const listeners = createSessionListeners(() => attend());
  let watcher: FSWatcher | undefined;
  let timer: NodeJS.Timeout | undefined;
  let gathering: NodeJS.Timeout | undefined;
  let isBlind = false;
  let isUnreadable = false;
  let everyMs = 0;

  /** Nobody waits for what a timer does: what it throws would end the process. */
  const attempt = (work: () => void): void => {
    try {
      work();
      isUnreadable = false;
    } catch (error) {
      // Whoever reads the log is told as well; the next look tries again.
      if (!isUnreadable) warn(`what other processes append cannot be read: ${messageOf(error)}`);
      isUnreadable = true;
    }
  };
  const read = (): void => {
    gathering = undefined;
    attempt(catchUp);
  };
  /** What is in a segment that was filled and closed since is found by where the logs end. */
  const look = (): void =>
    attempt(() => {
      catchUp();
      for (const id of listeners.received()) grown(id);
    });
  const grown = (sessionId: string): void => {
    if (listeners.hasListeners(sessionId)) listeners.emit(sessionId, endOf(sessionId));
  };
  const openWatcher = (): void => {
    try {
      watcher = watch(folder, { persistent: false }, () => {
        gathering ??= setTimeout(read, GATHER_MS).unref();
      });
      watcher.on("error", blind);
    } catch (error) {
      blind(error);
    }
  };
  /** The system has no more watches to give, or none for such a folder. */
  const blind = (error: unknown): void => {
    if (!isBlind) warn(`${folder} cannot be watched, and is looked at instead: ${messageOf(error)}`);
    isBlind = true;
    attend();
  };
  const rest = (): void => {
    watcher?.close();
    watcher = undefined;
    clearInterval(timer);
    timer = undefined;
    clearTimeout(gathering);
    gathering = undefined;
  };
  const attend = (): void => {
    const neededMs = listeners.received().length === 0 ? 0 : isBlind ? LOOK_MS_BLIND : LOOK_MS;
    // Where readers come and go all the time, looks that began anew with each of them would never come.
    if (neededMs === everyMs) return;
    rest();
    everyMs = neededMs;
    if (neededMs === 0) return;
    timer = setInterval(look, neededMs).unref();
    if (!isBlind) openWatcher();
  };
  return {
    emit: listeners.emit,
    subscribe: listeners.subscribe,
    grown,
    close: async () => rest(),
  };
}
