import type { Cost } from "../../../contract/money.ts";
import type { SessionSummary } from "../../../contract/session-info.ts";
import { parentageOf } from "../../../contract/sub-agents.ts";
import type { Dispatch } from "../../../service/dispatch.ts";
import { formatSessionRef } from "../../wire/events.ts";
import { command, type OpenedCall, onSession, show } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { alignColumns, costText, counted, grouped, oneLine } from "../io.ts";
import { shortIds } from "../session-selector.ts";

/** `rkat session tree`. */
export const treeRow = command("session tree SESSION", {
  text: "Show a session with the sessions of its sub-agents: the state and the usage of each.",
  flags: () => [jsonFlag()],
  examples: [
    ["rkat session tree last", "the sub-agents it delegated to, and their usage"],
    ["rkat session tree last --json | jq .total_tokens", "of all of them together"],
  ],
  run: onSession(showTree),
});

/** A session with those of its sub-agents. */
interface Branch extends Pick<SessionSummary, "session_id" | "state" | "title" | "model" | "total_tokens" | "cost"> {
  /** Absent at the root of a tree that is no sub-agent's. */
  readonly agent?: string;
  readonly children: readonly Branch[];
}

const SESSIONS_MAX = 1_000;
const DEPTH_MAX = 16;
const TITLE_CHARS_MAX = 60;

async function showTree(call: OpenedCall): Promise<void> {
  const { opened, id, paint } = call;
  const root = await opened.runtime.readSession(id);
  const { dispatch } = opened.runtime;
  const count = { left: SESSIONS_MAX };
  const tree = await branchOf(root, { dispatch, count, depth: 0 });
  const all = flat(tree);
  const total_tokens = all.reduce((sum, { branch }) => sum + branch.total_tokens, 0);
  const cost = costOf(all.map(({ branch }) => branch));
  const isCut = count.left < 0;
  const parent = parentageOf(root)?.parent;
  const session_ref = formatSessionRef(opened.place.realm, id);
  const sums = { total_tokens, ...(cost === undefined ? {} : { cost }), ...(isCut ? { has_more: true } : {}) };
  show(call, { session_ref, ...(parent === undefined ? {} : { parent }), ...sums, tree }, () => {
    const idOf = shortIds(all.map(({ branch }) => branch.session_id));
    const rows = all.map(({ branch, lead }) => [
      `${lead}${branch.agent === undefined ? "session" : oneLine(branch.agent, TITLE_CHARS_MAX)}`,
      idOf(branch.session_id),
      branch.state,
      `${grouped(branch.total_tokens)} tokens`,
      costText(branch.cost),
      oneLine(branch.title, TITLE_CHARS_MAX),
    ]);
    const more = isCut ? `; more than ${grouped(SESSIONS_MAX)} are not shown` : "";
    const sum = `${counted(all.length, "session")}, ${grouped(total_tokens)} tokens, ${costText(cost)}${more}`;
    return [...alignColumns(rows), paint.dim(sum)];
  });
}

interface Growing {
  readonly dispatch: Dispatch;
  /** How many more sessions the tree may have; below 0 when there were more. */
  readonly count: { left: number };
  readonly depth: number;
}

async function branchOf(session: Omit<SessionSummary, "title"> & { title: string }, growing: Growing): Promise<Branch> {
  const { session_id, state, title, model, total_tokens, cost } = session;
  const agent = parentageOf(session)?.agent;
  const { dispatch, count, depth } = growing;
  const input = { labels: { parent: session_id }, archived: true };
  const { sessions } = depth >= DEPTH_MAX ? { sessions: [] } : await dispatch("listSessions", input);
  const children: Branch[] = [];
  // In the order in which they were handed their tasks.
  for (const child of sessions.toSorted((one, other) => (one.session_id < other.session_id ? -1 : 1))) {
    if (parentageOf(child)?.parent !== session_id) continue;
    count.left -= 1;
    if (count.left < 0) break;
    children.push(await branchOf(child, { ...growing, depth: depth + 1 }));
  }
  const own = { session_id, ...(agent === undefined ? {} : { agent }), state, title, model, total_tokens };
  return { ...own, ...(cost === undefined ? {} : { cost }), children };
}

interface Row {
  readonly branch: Branch;
  /** What stands before it, so that one sees whose it is. */
  readonly lead: string;
}

function flat(branch: Branch, lead = "", below = ""): readonly Row[] {
  const rows = branch.children.flatMap((child, index) => {
    const isLast = index === branch.children.length - 1;
    return flat(child, `${below}${isLast ? "└─ " : "├─ "}`, `${below}${isLast ? "   " : "│  "}`);
  });
  return [{ branch, lead }, ...rows];
}

/** What all of them cost; partial where of one of them no price is known. */
function costOf(branches: readonly Branch[]): Cost | undefined {
  const known = branches.flatMap(({ cost }) => cost ?? []);
  if (known.length === 0) return undefined;
  const amount = known.reduce((sum, cost) => sum + cost.amount, 0);
  const isPartial = known.some(({ partial }) => partial === true) || known.length < branches.length;
  return { amount, currency: "USD", ...(isPartial ? { partial: true } : {}) };
}
