/** What somebody may do: read, run turns, give them shell and file tools, answer questions, configure, everything. */
export type Scope = "read" | "run" | "tools" | "approve" | "config" | "admin";

/** Who asks for an operation. */
export interface Caller {
  /** How logs and audits call it; never its secret. */
  readonly name: string;
  readonly scopes: ReadonlySet<Scope>;
  /** Only sessions with these labels, and what is theirs, are there for it. */
  readonly labels: Readonly<Record<string, string>>;
}
