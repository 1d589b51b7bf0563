# Generated from packages/core/src/contract/ by `npm run docs`: change the contract, not this file.
"""The table of operations: the name of each over JSON-RPC, and its path over HTTP."""

from __future__ import annotations

from typing import NamedTuple


class Operation(NamedTuple):
    """A row of the table."""

    rpc: str
    http: str


OPERATIONS: dict[str, Operation] = {
    "createSession": Operation("session/create", "POST /sessions"),
    "startTurn": Operation("turn/start", "POST /sessions/{session_id}/messages"),
    "resumeSession": Operation("session/resume", "POST /sessions/{session_id}/messages"),
    "finishTurn": Operation("turn/finish", "POST /sessions/{session_id}/finish"),
    "interruptTurn": Operation("turn/interrupt", "POST /sessions/{session_id}/interrupt"),
    "readSession": Operation("session/read", "GET /sessions/{session_id}"),
    "listSessions": Operation("session/list", "GET /sessions"),
    "readHistory": Operation("session/history", "GET /sessions/{session_id}/history"),
    "archiveSession": Operation("session/archive", "DELETE /sessions/{session_id}"),
    "injectContext": Operation("session/inject_context", "POST /sessions/{session_id}/system_context"),
    "sendExternalEvent": Operation("session/external_event", "POST /sessions/{session_id}/external-events"),
    "forkSession": Operation("session/fork_at", "POST /sessions/{session_id}/fork"),
    "readInbox": Operation("session/inbox", "GET /sessions/{session_id}/inbox"),
    "removeInboxMessage": Operation("session/inbox_remove", "DELETE /sessions/{session_id}/inbox/{message_id}"),
    "listJobs": Operation("session/jobs", "GET /sessions/{session_id}/jobs"),
    "cancelJob": Operation("session/job_cancel", "DELETE /sessions/{session_id}/jobs/{job_id}"),
    "endGoal": Operation("session/goal_end", "DELETE /sessions/{session_id}/goal"),
    "sendComms": Operation("comms/send", "POST /comms/send"),
    "listPeers": Operation("comms/peers", "GET /comms/peers"),
    "exportSession": Operation("session/export", "GET /sessions/{session_id}/export"),
    "importSession": Operation("session/import", "POST /sessions/import"),
    "importHistory": Operation("session/import_history", "POST /sessions/import_history"),
    "exportAgent": Operation("agent/export", "GET /agents/{agent}/export"),
    "listApprovals": Operation("session/approvals", "GET /approvals"),
    "answerApproval": Operation("session/answer_approval", "POST /sessions/{session_id}/approvals/{approval_id}"),
    "addMcpServer": Operation("mcp/add", "POST /sessions/{session_id}/mcp/add"),
    "removeMcpServer": Operation("mcp/remove", "POST /sessions/{session_id}/mcp/remove"),
    "reloadMcpServers": Operation("mcp/reload", "POST /sessions/{session_id}/mcp/reload"),
    "forkReplacing": Operation("session/fork_replace", "POST /sessions/{session_id}/fork-replace"),
    "rewriteTranscript": Operation("session/rewrite_transcript", "POST /sessions/{session_id}/rewrite-transcript"),
    "readRevision": Operation(
        "session/transcript_revision", "GET /sessions/{session_id}/transcript-revisions/{revision}"
    ),
    "restoreRevision": Operation(
        "session/restore_transcript_revision", "POST /sessions/{session_id}/restore-transcript-revision"
    ),
    "listRewrites": Operation("session/transcript_rewrites", "GET /sessions/{session_id}/transcript-rewrites"),
    "readContext": Operation("session/context", "GET /sessions/{session_id}/context"),
    "listModelCalls": Operation("session/model_calls", "GET /sessions/{session_id}/model_calls"),
    "compactSession": Operation("session/compact", "POST /sessions/{session_id}/compact"),
    "listCompactions": Operation("session/compactions", "GET /sessions/{session_id}/compactions"),
    "readSummarySources": Operation(
        "session/summary_sources", "GET /sessions/{session_id}/compactions/{compaction_id}/sources"
    ),
    "undoCompaction": Operation("session/compact_undo", "POST /sessions/{session_id}/compactions/{compaction_id}/undo"),
    "expandCompaction": Operation(
        "session/compact_expand", "POST /sessions/{session_id}/compactions/{compaction_id}/expand"
    ),
    "pinMessage": Operation("session/pin", "PUT /sessions/{session_id}/pins/{seq}"),
    "unpinMessage": Operation("session/unpin", "DELETE /sessions/{session_id}/pins/{seq}"),
    "listPins": Operation("session/pins", "GET /sessions/{session_id}/pins"),
    "searchMemory": Operation("memory/search", "GET /memory/search"),
    "searchHistory": Operation("memory/search_history", "GET /memory/history"),
    "readMemoryStatus": Operation("memory/status", "GET /memory/status"),
    "remember": Operation("agent/remember", "POST /agents/{agent}/memories"),
    "takeNote": Operation("agent/note", "POST /agents/{agent}/notes"),
    "readAgentContext": Operation("agent/context", "GET /agents/{agent}/context"),
    "compactAgent": Operation("agent/compact", "POST /agents/{agent}/compact"),
    "readAgentStatus": Operation("agent/status", "GET /agents/{agent}"),
    "readAgentHistory": Operation("agent/history", "GET /agents/{agent}/history"),
    "readAgentReceipt": Operation("agent/receipt", "GET /agents/{agent}/receipt"),
    "listAgents": Operation("agent/list", "GET /agents"),
    "forget": Operation("memory/forget", "POST /memory/forget"),
    "listForgettings": Operation("memory/forgettings", "GET /memory/forgettings"),
    "prune": Operation("memory/prune", "POST /memory/prune"),
    "readEventCursor": Operation("events/latest_cursor", "GET /sessions/{session_id}/events/cursor"),
    "listEvents": Operation("events/list_since", "GET /sessions/{session_id}/events/list"),
    "readBlob": Operation("blob/get", "GET /blobs/{blob_id}"),
    "createSchedule": Operation("schedule/create", "POST /schedules"),
    "listSchedules": Operation("schedule/list", "GET /schedules"),
    "readSchedule": Operation("schedule/get", "GET /schedules/{schedule_id}"),
    "updateSchedule": Operation("schedule/update", "PATCH /schedules/{schedule_id}"),
    "pauseSchedule": Operation("schedule/pause", "POST /schedules/{schedule_id}/pause"),
    "resumeSchedule": Operation("schedule/resume", "POST /schedules/{schedule_id}/resume"),
    "deleteSchedule": Operation("schedule/delete", "DELETE /schedules/{schedule_id}"),
    "listOccurrences": Operation("schedule/occurrences", "GET /schedules/{schedule_id}/occurrences"),
    "readConfig": Operation("config/get", "GET /config"),
    "setConfig": Operation("config/set", "PUT /config"),
    "patchConfig": Operation("config/patch", "PATCH /config"),
    "listSkills": Operation("skills/list", "GET /skills"),
    "readSkill": Operation("skills/inspect", "GET /skills/{source_uuid}/{skill_name}"),
    "readUsage": Operation("usage/read", "GET /usage"),
    "readAccess": Operation("access/get", "GET /access"),
    "readCapabilities": Operation("capabilities/get", "GET /capabilities"),
    "readModels": Operation("models/catalog", "GET /models/catalog"),
}


CONTRACT_VERSION = (0, 6)
"""Major and minor of the wire contract; servers of the same are spoken to."""
