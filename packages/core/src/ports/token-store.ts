import type { Token } from "../contract/caller.ts";

/** Stores the tokens of a realm, without their secrets. */
export interface TokenStore {
  /** Whether tokens were ever made: from then on, requests need one. */
  isInUse(): boolean;
  /** The readable tokens by name; changes of another machine are seen within a second. */
  read(): readonly Token[];
  /** Changes whenever a token is made or revoked; undefined while unknown. */
  state(nowMs: number): string | undefined;
  /** Stores a token; false if its name is taken. */
  add(token: Token): Promise<boolean>;
  /** Deletes a token; false if there is none of the name. */
  remove(name: string): Promise<boolean>;
  close(): Promise<void>;
}
