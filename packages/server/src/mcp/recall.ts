import type { CallToolResult } from "@modelcontextprotocol/server";
import { asRuntimeError } from "@rkat/core/contract/error";
import { RECALL_TOOL } from "@rkat/core/contract/wire/mcp-tools";
import { parseParams } from "@rkat/core/contract/wire/requests";
import { type Params, withPlainIds, withSessionRefs } from "../http/events.ts";
import { type CallParts, jsonResult, toolFailure } from "./call-tool.ts";

/** What one answer has of receipts: a model reads it whole. */
const SESSIONS_MAX = 3;
const COMPACTIONS_MAX = 3;
const SPECIFICS_MAX = 40;

/** Searches what compactions removed, and joins the receipts of those compactions. A failure is a result, too, so that the model can read it. */
export async function callRecall(
  { dispatch, realm }: CallParts,
  args: Params,
  signal: AbortSignal,
): Promise<CallToolResult> {
  try {
    const asked = parseParams(RECALL_TOOL.input, withPlainIds(args, realm));
    const { results } = await dispatch("searchMemory", asked, { signal });
    const found = results.filter(({ agent }) => agent === undefined);
    const named = new Set(asked.session_id === undefined ? found.map((hit) => hit.session_id) : [asked.session_id]);
    const compactions = [];
    for (const session_id of [...named].slice(0, SESSIONS_MAX)) {
      const listed = await dispatch("listCompactions", { session_id }, { signal });
      const standing = listed.compactions.filter(({ undone }) => !undone);
      const seqs = found.filter((hit) => hit.session_id === session_id).map(({ seq }) => seq);
      const removed = standing.filter(({ discarded }) =>
        seqs.some((seq) => discarded.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq)),
      );
      // Where nothing was found, the receipt of the newest says what to search for.
      for (const one of removed.length > 0 ? removed.slice(-COMPACTIONS_MAX) : standing.slice(-1)) {
        const { compaction_id, created_at, notes, receipt } = one;
        const { total, in_summary, in_tail, pinned, recoverable, lost, items } = receipt;
        const counts = { total, in_summary, in_tail, pinned, recoverable, lost };
        const gone = items
          .filter(({ status }) => status === "lost" || status === "recoverable")
          .slice(0, SPECIFICS_MAX);
        compactions.push({ session_id, compaction_id, created_at, notes, receipt: counts, not_in_summary: gone });
      }
    }
    return jsonResult(withSessionRefs({ results, compactions }, realm));
  } catch (thrown) {
    return toolFailure(asRuntimeError(thrown));
  }
}
