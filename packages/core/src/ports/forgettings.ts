/** Where a text was found: a file or a table row, without the text. */
export interface ScanMatch {
  readonly place: string;
  /** The index of the text; -1 if a place could not be read completely and may hold any. */
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
  /** The signed JSON, verbatim. */
  readonly receipt: string;
  readonly signature: string;
  readonly public_key: string;
}

/** A store's part in erasing: durable jobs, a scan of all data, and signed receipts. */
export interface Forgettings {
  /** Stores a job durably before anything is changed; replaces one with the same id. */
  begin(id: string, job: string): Promise<void>;
  /** Unfinished jobs, oldest first. */
  unfinished(): Promise<readonly { readonly id: string; readonly job: string }[]>;
  /** Deletes a job without a trace. */
  end(id: string): Promise<void>;
  /** Searches every byte of the realm for texts in any form, except open jobs. */
  scan(texts: readonly string[], onProgress?: (done: { places: number; bytes: number }) => void): Promise<Scan>;
  /** Signs a receipt with the realm's key and stores it. */
  keep(receipt: string): Promise<SignedReceipt>;
  /** Known back-ups of the realm, which still hold what is erased later. */
  backups?(): Promise<readonly { readonly place: string; readonly at_ms: number }[]>;
  /** Newest last. */
  receipts(): Promise<readonly SignedReceipt[]>;
}
