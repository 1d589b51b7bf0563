/**
 * Encrypts stored data with the realm's key. Each owner, a log's id or the name of shared data, has a key of its own,
 * so that destroying that key makes the owner's data unreadable for ever.
 */
export interface Seal {
  /** Whether plain data may date from before encryption; otherwise plain data is not accepted. */
  readonly hasPlain: boolean;
  /** Whether the owner has a key, so that its data can be read. */
  has(owner: string): boolean;
  /** Encrypted bytes that open only at the same `place`; the owner's key is durable before its first use. */
  seal(owner: string, plain: Uint8Array, place: Uint8Array): Uint8Array;
  /** Throws SESSION_STORE_ERROR, detected by `isUnreadable`, if the key is gone or the bytes were changed. */
  open(owner: string, sealed: Uint8Array, place: Uint8Array): Uint8Array;
  /** 32 bytes derived from the owner's key and a purpose, always the same: for masks of data at fixed places. */
  secret(owner: string, purpose: string): Uint8Array;
  /** Destroys the owner's key; does nothing without one. */
  destroy(owner: string): Promise<void>;
}

/** The owners of data that all sessions of a realm share. */
export const SHARED_OWNERS = { blobs: "blobs", index: "index", memory: "memory", forgotten: "forgotten" } as const;
