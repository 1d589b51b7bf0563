/** Where a text was found: a file or a table's row, told without the text. */
export interface ScanMatch {
  readonly place: string;
  /** Its index in the texts asked for; -1 where a place could not be looked at to its end and may hold any. */
  readonly text: number;
  readonly form: string;
}

export interface Scan {
  readonly places: number;
  readonly bytes: number;
  readonly matches: readonly ScanMatch[];
  /** Matches that are not listed. */
  readonly more: number;
}

export interface SignedReceipt {
  /** JSON, and exactly what was signed. */
  readonly receipt: string;
  readonly signature: string;
  readonly public_key: string;
}

/** A store's part in forgetting: work that survives a crash, a look at everything that is kept, and receipts with a signature. */
export interface Forgettings {
  /** Keeps a job durably, before anything is changed, in the place of one with the same id. */
  begin(id: string, job: string): Promise<void>;
  /** What was begun and not ended, oldest first. */
  unfinished(): Promise<readonly { readonly id: string; readonly job: string }[]>;
  /** Takes a job away: nothing of it is left in the store. */
  end(id: string): Promise<void>;
  /** Looks for texts, in any of their forms, at every byte the realm keeps but for open jobs, which end with it. */
  scan(texts: readonly string[], onProgress?: (done: { places: number; bytes: number }) => void): Promise<Scan>;
  /** Signs a receipt with the key of the realm and keeps it. */
  keep(receipt: string): Promise<SignedReceipt>;
  /** Back-ups that are known to have been made of the realm: what is forgotten later they still hold. */
  backups?(): Promise<readonly { readonly place: string; readonly at_ms: number }[]>;
  /** Newest last. */
  receipts(): Promise<readonly SignedReceipt[]>;
}
