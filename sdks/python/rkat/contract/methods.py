# Generated from packages/core/src/contract/ by `npm run docs`: change the contract, not this file.
"""Operations as methods, with the fields of their inputs as parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..transport import Handle
from . import options, results


class ClientMethods(Handle):
    """The operations on a server."""

    async def list_sessions(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        labels: Mapping[str, str] | None = None,
        archived: bool | None = None,
        cursor: str | None = None,
    ) -> list[results.SessionSummary]:
        """List sessions, newest first; labels must all match.

        - `limit`: show at most so many
        - `offset`: leave out the newest so many
        - `labels`: only sessions with these labels
        - `archived`: archived sessions, too
        - `cursor`: continue where an earlier answer ended: its next_cursor, without an offset; no session comes twice,
        and one that changes meanwhile moves to the front and may be missed
        """
        answer = await self._request(
            "session/list", limit=limit, offset=offset, labels=labels, archived=archived, cursor=cursor
        )
        sessions: list[results.SessionSummary] = answer["sessions"]
        return sessions

    async def import_session(
        self,
        source_session_id: str,
        last_seq: int,
        entries: Sequence[options.PortableEntry],
        *,
        into: str | None = None,
        beside: bool | None = None,
        after: int | None = None,
        sha256: str | None = None,
        blobs: Sequence[options.PortableBlob] | None = None,
    ) -> results.ImportSessionResult:
        """Add a session that was exported, in one call or page by page; under another id where its own is taken.

        - `source_session_id`: the id that the session had where it was exported
        - `into`: the id that the first call answered; with every call but the first
        - `beside`: take another id even where a session of this one could be gone on with; with the first call
        - `after`: the seq that these entries follow; 0 for the first
        - `last_seq`: where the whole log ends, which says when it is complete
        - `sha256`: of every entry as a line of JSON with seq, span, timestamp_ms and body; where it is given, the whole
        log must have it
        - `entries`: entries as an export has them, in their order
        - `blobs`: what these entries name
        """
        answer: results.ImportSessionResult = await self._request(
            "session/import",
            source_session_id=source_session_id,
            into=into,
            beside=beside,
            after=after,
            last_seq=last_seq,
            sha256=sha256,
            entries=entries,
            blobs=blobs,
        )
        return answer

    async def approvals(self, *, session_id: str | None = None) -> list[results.ListApproval]:
        """List the tool calls that wait for approval, oldest first.

        - `session_id`: only those of this session
        """
        answer = await self._request("session/approvals", session_id=session_id)
        approvals: list[results.ListApproval] = answer["approvals"]
        return approvals

    async def memory_status(self) -> results.MemoryStatusReport:
        """Say what memory holds, what is still to be taken in, and how it searches."""
        answer: results.MemoryStatusReport = await self._request("memory/status")
        return answer

    async def agents(self) -> list[results.AgentSummary]:
        """List the agents of this project, by name."""
        answer = await self._request("agent/list")
        agents: list[results.AgentSummary] = answer["agents"]
        return agents

    async def forget(
        self,
        *,
        session_id: str | None = None,
        seq: int | None = None,
        messages: Sequence[options.ForgetMessage] | None = None,
        agent: str | None = None,
        memory: int | None = None,
        query_exact: str | None = None,
        query: str | None = None,
        dry_run: bool | None = None,
    ) -> results.ForgetResult:
        """Forget a session, messages, an agent's memory or a text everywhere, with a signed receipt.

        - `session_id`: forget this session, or a message of it
        - `seq`: with a session: only the message with this seq
        - `messages`: forget these messages, such as those a dry run of a query listed
        - `agent`: forget what this agent remembers
        - `memory`: with an agent: only the memory with this number
        - `query_exact`: forget every message and memory that says this, in any case, spacing and encoding
        - `query`: with dry_run: list the messages a search finds; then forget those that are meant, by messages
        - `dry_run`: change nothing: list what would go
        """
        answer: results.ForgetResult = await self._request(
            "memory/forget",
            session_id=session_id,
            seq=seq,
            messages=messages,
            agent=agent,
            memory=memory,
            query_exact=query_exact,
            query=query,
            dry_run=dry_run,
        )
        return answer

    async def forgettings(self) -> results.ListForgettingsResult:
        """List the signed receipts of what was forgotten."""
        answer: results.ListForgettingsResult = await self._request("memory/forgettings")
        return answer

    async def prune(self, *, dry_run: bool | None = None, limit: int | None = None) -> results.PruneResult:
        """Forget the sessions that the configuration keeps no longer, with one signed receipt.

        - `dry_run`: change nothing: list what would go
        - `limit`: the most sessions to go at once, the oldest first, up to 1000
        """
        answer: results.PruneResult = await self._request("memory/prune", dry_run=dry_run, limit=limit)
        return answer

    async def config(self) -> results.ConfigEnvelope:
        """Read the effective configuration, defaults filled in, with the generation of the realm's own layer."""
        answer: results.ConfigEnvelope = await self._request("config/get")
        return answer

    async def set_config(
        self, config: Mapping[str, Any], expected_generation: int | None = None
    ) -> results.ConfigEnvelope:
        """Replace the realm's own layer of the configuration; turns that start afterwards follow it.

        - `config`: the whole layer as JSON, by the keys of the file
        - `expected_generation`: only if the realm's own layer has changed this often
        """
        answer: results.ConfigEnvelope = await self._request(
            "config/set", config=config, expected_generation=expected_generation
        )
        return answer

    async def patch_config(
        self, patch: Mapping[str, Any], expected_generation: int | None = None
    ) -> results.ConfigEnvelope:
        """Change the realm's own layer of the configuration by a merge patch; null removes a key.

        - `patch`: what changes as JSON, by the keys of the file; null removes a key
        - `expected_generation`: only if the realm's own layer has changed this often
        """
        answer: results.ConfigEnvelope = await self._request(
            "config/patch", patch=patch, expected_generation=expected_generation
        )
        return answer

    async def skills(self, *, source_uuid: str | None = None) -> list[results.SkillRow]:
        """List the skills of this runtime, those that a nearer one of the same name hides among them.

        - `source_uuid`: only those of this source
        """
        answer = await self._request("skills/list", source_uuid=source_uuid)
        skills: list[results.SkillRow] = answer["skills"]
        return skills

    async def skill(
        self, skill_name: str, *, source_uuid: str | None = None, file: str | None = None
    ) -> results.SkillText:
        """Read a skill's text, or one of the files beside it, as a model that loads it is given it.

        - `source_uuid`: its source; without it, the one that sessions have
        - `skill_name`: the skill, by its name
        - `file`: a file beside it
        """
        answer: results.SkillText = await self._request(
            "skills/inspect", source_uuid=source_uuid, skill_name=skill_name, file=file
        )
        return answer

    async def usage(
        self,
        *,
        by: Literal["model", "label", "day", "token"] | None = None,
        since: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> results.UsageReport:
        """Sum up what models were used, with their tokens and cost, over all sessions and agents.

        - `by`: what usage is grouped by: model, label, day (UTC), or the token of the caller
        - `since`: only from this day on: how far back, such as 7d, or a day, such as 2026-11-01
        - `labels`: only sessions with these labels
        """
        answer: results.UsageReport = await self._request("usage/read", by=by, since=since, labels=labels)
        return answer

    async def access(self) -> results.ReadAccessResult:
        """Say who asks, and what it may do."""
        answer: results.ReadAccessResult = await self._request("access/get")
        return answer

    async def capabilities(self) -> results.Capabilities:
        """Say what this runtime can do and what was left out."""
        answer: results.Capabilities = await self._request("capabilities/get")
        return answer

    async def models(self) -> results.ModelsCatalog:
        """List the known models with their context window and output limit."""
        answer: results.ModelsCatalog = await self._request("models/catalog")
        return answer


class SessionMethods(Handle):
    """The operations on a session."""

    async def finish_turn(self) -> results.RunResult:
        """Finish a turn whose process ended before it did; what its log contains is not repeated."""
        answer: results.RunResult = await self._request("turn/finish")
        return answer

    async def interrupt(self) -> None:
        """Stop the running turn; a session that is idle is left as it is."""
        await self._request("turn/interrupt")

    async def read(self) -> results.SessionInfo:
        """Read what a session is and how far it got."""
        answer: results.SessionInfo = await self._request("session/read")
        return answer

    async def history(self, *, limit: int | None = None, offset: int | None = None) -> results.SessionHistory:
        """Read a session's full transcript, oldest first.

        - `limit`: show at most so many messages
        - `offset`: leave out the oldest so many
        """
        answer: results.SessionHistory = await self._request("session/history", limit=limit, offset=offset)
        return answer

    async def archive(self) -> None:
        """Archive a session: it stays readable and runs no more turns."""
        await self._request("session/archive")

    async def inject(
        self, text: str, *, source: str | None = None, idempotency_key: str | None = None
    ) -> Literal["applied", "staged", "duplicate"]:
        """Add a text the model is shown from its next call on, without running a turn.

        - `text`: what the model is shown from its next call on
        - `source`: where the text comes from; the model sees it
        - `idempotency_key`: the same key again adds nothing; with another text it is refused
        """
        answer = await self._request(
            "session/inject_context", text=text, source=source, idempotency_key=idempotency_key
        )
        status: Literal["applied", "staged", "duplicate"] = answer["status"]
        return status

    async def send_external_event(
        self,
        event_type: str,
        *,
        payload: Any = None,
        blocks: Sequence[options.TextBlock] | None = None,
        idempotency_key: str | None = None,
    ) -> results.ExternalEventOutcome:
        """Tell the model of an event from outside, as data it is shown from its next call on; no turn is run.

        - `event_type`: what happened, a name of 1 to 200 characters
        - `payload`: facts of the event, any JSON of at most 65536 characters
        - `blocks`: more of it, in words
        - `idempotency_key`: the same key again is the same event
        """
        answer: results.ExternalEventOutcome = await self._request(
            "session/external_event",
            event_type=event_type,
            payload=payload,
            blocks=blocks,
            idempotency_key=idempotency_key,
        )
        return answer

    async def export(self, *, after: int | None = None, limit: int | None = None) -> results.ExportSessionResult:
        """Read a session's whole log, a page at a time, to be imported elsewhere as the same session.

        - `after`: only what follows this seq
        - `limit`: at most so many entries; fewer where they are large
        """
        answer: results.ExportSessionResult = await self._request("session/export", after=after, limit=limit)
        return answer

    async def answer_approval(
        self,
        approval_id: str,
        decision: Literal["allow", "deny"],
        *,
        remember: Literal["once", "session", "project"] | None = None,
        calls: Sequence[str] | None = None,
        reason: str | None = None,
    ) -> results.AnswerApprovalResult:
        """Approve or deny tool calls that wait for approval; the turn continues here once none of its calls waits.

        - `approval_id`: the question's id
        - `decision`: whether the calls may run
        - `remember`: for how long a yes counts: once, or for calls like these in the session or the project
        - `calls`: the calls it speaks of; all that wait unless given
        - `reason`: why not; the model sees it
        """
        answer: results.AnswerApprovalResult = await self._request(
            "session/answer_approval",
            approval_id=approval_id,
            decision=decision,
            remember=remember,
            calls=calls,
            reason=reason,
        )
        return answer

    async def revision(
        self, revision: str, *, limit: int | None = None, offset: int | None = None
    ) -> results.TranscriptRevision:
        """Read a transcript as it was at a revision, or as it is now, with its revision.

        - `revision`: the revision to read, or current
        - `limit`: show at most so many messages
        - `offset`: leave out the oldest so many
        """
        answer: results.TranscriptRevision = await self._request(
            "session/transcript_revision", revision=revision, limit=limit, offset=offset
        )
        return answer

    async def rewrites(self) -> list[results.RewriteCommit]:
        """List how a transcript was rewritten and restored, oldest first."""
        answer = await self._request("session/transcript_rewrites")
        commits: list[results.RewriteCommit] = answer["commits"]
        return commits

    async def context(self, *, at_seq: int | None = None) -> results.SessionContext:
        """Read what the model is shown now, or was shown at an earlier call, byte for byte.

        - `at_seq`: at the model call with this seq, as in events
        """
        answer: results.SessionContext = await self._request("session/context", at_seq=at_seq)
        return answer

    async def model_calls(self, *, limit: int | None = None, before_seq: int | None = None) -> results.ModelCalls:
        """List a session's model calls with what filled the context of each, the newest, oldest first.

        - `limit`: show at most so many: 200 without it, 1000 at most
        - `before_seq`: only calls before the one with this seq
        """
        answer: results.ModelCalls = await self._request("session/model_calls", limit=limit, before_seq=before_seq)
        return answer

    async def compact(self, *, preview: bool | None = None, instructions: str | None = None) -> results.CompactResult:
        """Compact a session's context now, or preview what that would keep, drop and cost.

        - `preview`: change nothing: say what would be kept and taken out, and what it would cost
        - `instructions`: what the summary must not leave out
        """
        answer: results.CompactResult = await self._request(
            "session/compact", preview=preview, instructions=instructions
        )
        return answer

    async def compactions(self) -> list[results.Compaction]:
        """List a session's compactions with their receipts, oldest first."""
        answer = await self._request("session/compactions")
        compactions: list[results.Compaction] = answer["compactions"]
        return compactions

    async def summary_sources(self, compaction_id: str) -> list[results.ReadSummarySource]:
        """Say which messages each sentence of a compaction's summary comes from, by its names, numbers and words.

        - `compaction_id`: the compaction, by its id
        """
        answer = await self._request("session/summary_sources", compaction_id=compaction_id)
        sentences: list[results.ReadSummarySource] = answer["sentences"]
        return sentences

    async def undo_compaction(self, compaction_id: str) -> list[str]:
        """Undo a compaction: the context is what it would be without it; later turns stay.

        - `compaction_id`: the compaction, by its id
        """
        answer = await self._request("session/compact_undo", compaction_id=compaction_id)
        compaction_ids: list[str] = answer["compaction_ids"]
        return compaction_ids

    async def expand_compaction(
        self,
        compaction_id: str,
        *,
        from_seq: int | None = None,
        to_seq: int | None = None,
        max_tokens: int | None = None,
    ) -> results.ExpandResult:
        """Bring turns a compaction took out of the context back into it.

        - `compaction_id`: the compaction, by its id
        - `from_seq`: from the message with this seq on
        - `to_seq`: up to the message with this seq
        - `max_tokens`: bring back at most so much; without it, up to the threshold
        """
        answer: results.ExpandResult = await self._request(
            "session/compact_expand",
            compaction_id=compaction_id,
            from_seq=from_seq,
            to_seq=to_seq,
            max_tokens=max_tokens,
        )
        return answer

    async def pin(self, seq: int) -> results.PinResult:
        """Pin a message: compactions keep it in the context.

        - `seq`: the message, by its seq, as the history has it
        """
        answer: results.PinResult = await self._request("session/pin", seq=seq)
        return answer

    async def unpin(self, seq: int) -> results.PinResult:
        """Take a message's pin away; what only the pin kept in the context leaves it, at the next compaction at the
        latest.

        - `seq`: the message, by its seq, as the history has it
        """
        answer: results.PinResult = await self._request("session/unpin", seq=seq)
        return answer

    async def pins(self) -> list[int]:
        """List a session's pinned messages by their seqs."""
        answer = await self._request("session/pins")
        pins: list[int] = answer["pins"]
        return pins


class AgentMethods(Handle):
    """The operations on an agent."""

    async def export(self, *, after: int | None = None, limit: int | None = None) -> results.ExportAgentResult:
        """Read everything an agent was ever given to remember, and its summaries, a page at a time.

        - `after`: only what follows this seq
        - `limit`: at most so many entries; fewer where they are large
        """
        answer: results.ExportAgentResult = await self._request("agent/export", after=after, limit=limit)
        return answer

    async def remember(self, content: str, metadata: Mapping[str, Any] | None = None) -> results.Remembered:
        """Add a memory to an agent; a compaction that becomes due runs in the background.

        - `content`: what to remember, as a text
        - `metadata`: facts to keep with it, as a JSON object
        """
        answer: results.Remembered = await self._request("agent/remember", content=content, metadata=metadata)
        return answer

    async def note(self, content: str, title: str | None = None) -> int:
        """Keep a private note of an agent, which its context shows when it is relevant.

        - `content`: the note itself
        - `title`: what it is about
        """
        answer = await self._request("agent/note", content=content, title=title)
        notes: int = answer["notes"]
        return notes

    async def context(self, *, immediate: int | None = None) -> results.AgentContext:
        """Read what an agent is shown of its life: both summaries, the newest memories, and all of it as a prompt.

        - `immediate`: show so many of the newest memories; without it, every one that no summary covers, 64 at least
        """
        answer: results.AgentContext = await self._request("agent/context", immediate=immediate)
        return answer

    async def compact(self) -> results.AgentCompacted:
        """Compact an agent's memories now, whether or not it is due."""
        answer: results.AgentCompacted = await self._request("agent/compact")
        return answer

    async def status(self) -> results.AgentStatus:
        """Say what an agent remembers: counts, tiers, summaries, the last compaction and the next."""
        answer: results.AgentStatus = await self._request("agent/status")
        return answer

    async def history(self, *, limit: int | None = None, before_seq: int | None = None) -> results.AgentHistory:
        """Read the summaries an agent's memories ever had, newest first.

        - `limit`: show the summaries of so many compactions: 50 without it, 200 at most
        - `before_seq`: only summaries before the one with this seq
        """
        answer: results.AgentHistory = await self._request("agent/history", limit=limit, before_seq=before_seq)
        return answer

    async def receipt(self, *, seq: int | None = None) -> results.AgentReceipt:
        """Read what a compaction of an agent kept, moved out of sight or lost, what its summaries invented, and their
        quality.

        - `seq`: the compaction with this seq in the agent's log, as its history has it; without it, the last
        """
        answer: results.AgentReceipt = await self._request("agent/receipt", seq=seq)
        return answer
