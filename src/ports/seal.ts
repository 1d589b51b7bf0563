/**
 * Makes what is kept unreadable without the realm's key. Each owner, a log's id or the name of something the realm shares,
 * has a key of its own, so that what one owner said can be made unreadable for ever by destroying that key alone.
 */
export interface Seal {
  /** Whether what is plain is of before the realm was sealed; else nothing plain is to be believed. */
  readonly hasPlain: boolean;
  /** Whether the owner has a key: what was sealed for it can be opened. */
  has(owner: string): boolean;
  /** Sealed bytes that open only at the same `place`; the owner's key is made, and durable, before its first use. */
  seal(owner: string, plain: Uint8Array, place: Uint8Array): Uint8Array;
  /** Throws SESSION_STORE_ERROR, as `isUnreadable` tells, where the key is gone or the bytes are not what was sealed. */
  open(owner: string, sealed: Uint8Array, place: Uint8Array): Uint8Array;
  /** 32 bytes that follow from the owner's key and a purpose, always the same: for masks of what has fixed places. */
  secret(owner: string, purpose: string): Uint8Array;
  /** Takes the owner's key away for good; without one, nothing happens. */
  destroy(owner: string): Promise<void>;
}

/** What all sessions of a realm share has these owners. */
export const SHARED_OWNERS = { blobs: "blobs", index: "index", memory: "memory", forgotten: "forgotten" } as const;
