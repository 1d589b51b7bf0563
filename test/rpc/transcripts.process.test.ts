import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { failure } from "../support/rpc-client.ts";
import { type RpcProcess, startRpc } from "../support/rpc-process.ts";

let home: string;
let server: RpcProcess;

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "rkat-transcripts-"));
  server = startRpc(home, ["--isolated"]);
});
afterAll(async () => {
  server.client.end();
  await server.exited;
  rmSync(home, { recursive: true });
});

describe("the transcripts of a client of the 0.6 line", () => {
  it("[G2] forkSessionReplace, rewriteSessionTranscript, readSessionTranscriptRevision, restoreSessionTranscriptRevision", async () => {
    const { client } = server;
    const { session_id } = await client.request("session/create", {
      prompt: "What is 2 + 3?",
      model: "offline",
      system_prompt: "Be brief.",
    });
    const current = await client.request("session/transcript_revision", { session_id, revision: "current" });
    const digest = expect.stringMatching(/^sha256:[0-9a-f]{64}$/);
    expect(current).toMatchObject({ session_id, message_count: 3, offset: 0, has_more: false, revision: digest });
    expect(current.head_revision).toBe(current.revision);
    const rewritten = await client.request("session/rewrite_transcript", {
      session_id,
      selection: { type: "message_range", start: 1, end: 3 },
      replacement: [
        { role: "user", content: "What is 2 + 4?" },
        { role: "assistant", content: "6", tool_calls: [] },
      ],
      reason: { kind: "correction", note: "a typing mistake" },
      actor: "a person",
      expected_parent_revision: current.revision,
      running_behavior: "reject",
    });
    expect(rewritten).toMatchObject({
      session_id,
      parent_revision: current.revision,
      revision: digest,
      message_count: 3,
    });
    expect(rewritten.commit).toEqual({
      parent_revision: current.revision,
      revision: rewritten.revision,
      selection: { type: "message_range", start: 1, end: 3 },
      original_span_digest: digest,
      replacement_digest: digest,
      messages_before: 3,
      messages_after: 3,
      reason: { kind: "correction", note: "a typing mistake" },
      actor: "a person",
      committed_at: { secs_since_epoch: expect.any(Number), nanos_since_epoch: expect.any(Number) },
    });
    const before = await client.request("session/transcript_revision", {
      session_id,
      revision: current.revision,
      limit: 2,
    });
    expect(before).toMatchObject({ revision: current.revision, head_revision: rewritten.revision, has_more: true });
    expect(before.messages).toMatchObject([{ role: "system" }, { role: "user", content: "What is 2 + 3?" }]);
    const stale = { session_id, revision: current.revision, reason: { kind: "undo" } };
    await expect(
      client.request("session/restore_transcript_revision", { ...stale, expected_parent_revision: current.revision }),
    ).rejects.toEqual(failure(-32602, "INVALID_PARAMS", /expected_parent_revision/));
    const restored = await client.request("session/restore_transcript_revision", stale);
    expect(restored).toMatchObject({ parent_revision: rewritten.revision, revision: current.revision });
    expect((await client.request("session/history", { session_id })).messages).toEqual(current.messages);
    const fork = await client.request("session/fork_replace", {
      session_id,
      message_index: 1,
      replacement: { type: "user_content_block", block_index: 0, block: { type: "text", text: "What is 5 + 5?" } },
    });
    expect(fork).toMatchObject({ source_session_id: session_id, message_count: 2, session_ref: expect.any(String) });
    expect((await client.request("session/history", { session_id: fork.session_id })).messages).toMatchObject([
      { role: "system", content: "Be brief." },
      { role: "user", content: "What is 5 + 5?" },
    ]);
  });
});
