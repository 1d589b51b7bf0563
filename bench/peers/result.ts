/** What a run leaves, and what its page is made of. */
export interface PeersResult {
  readonly command: string;
  /** How long the last run took, of all tables or of some. */
  readonly minutes: number;
  /** `load` is the load average of the minute before the run. */
  readonly machine: {
    readonly node: string;
    readonly arch: string;
    readonly cpus: number;
    readonly cpu: string;
    readonly load: number;
  };
  readonly peers: readonly MeasuredPeer[];
  readonly tables: readonly Table[];
}

export interface MeasuredPeer {
  readonly title: string;
  readonly versions: string;
  readonly memory: string;
  readonly folder?: string;
  readonly note?: string;
  /** Why it was not installed, or not whole. */
  readonly problem?: string;
}

export interface Table {
  readonly name: string;
  readonly title: string;
  /** When it was measured; a run of some tables leaves the others as they were. */
  readonly at: string;
  readonly commit: string;
  /** What is done, and how to read it. */
  readonly text: string;
  /** The first is that of the contender. */
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Who is not in the table, and why. */
  readonly missing: readonly (readonly [contender: string, reason: string])[];
  readonly chart?: Chart;
}

/** A table as its bench gives it. */
export type Figures = Omit<Table, "at" | "commit">;

export interface Chart {
  readonly title: string;
  readonly bars: readonly { readonly label: string; readonly value: number }[];
}
