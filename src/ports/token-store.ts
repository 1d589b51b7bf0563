import type { Token } from "../contract/token.ts";

/** Keeps the tokens of a realm, without their secrets. */
export interface TokenStore {
  /** Whether a token was ever created: from then on, requests need one. */
  isInUse(): boolean;
  /** Those that can be read, by name; what another machine changed in a database is seen within a second. */
  read(): readonly Token[];
  /** Another value whenever a token was made or revoked; undefined where that cannot be told yet. */
  state(nowMs: number): string | undefined;
  /** Keeps a token; false where its name is taken. */
  add(token: Token): Promise<boolean>;
  /** Takes a token away; false where there is none of the name. */
  remove(name: string): Promise<boolean>;
  close(): Promise<void>;
}
