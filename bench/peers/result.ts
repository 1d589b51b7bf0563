/** What a run leaves, and what its page is made of. */
export interface PeersResult {
  readonly at: string;
  readonly commit: string;
  readonly command: string;
  readonly minutes: number;
  readonly machine: { readonly node: string; readonly arch: string; readonly cpus: number; readonly cpu: string };
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
  /** What is done, and how to read it. */
  readonly text: string;
  /** The first is that of the contender. */
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Who is not in the table, and why. */
  readonly missing: readonly (readonly [contender: string, reason: string])[];
  readonly chart?: Chart;
}

export interface Chart {
  readonly title: string;
  readonly bars: readonly { readonly label: string; readonly value: number }[];
}
