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

        - `limit`: the maximum number of sessions
        - `offset`: skip this many of the newest
        - `labels`: only sessions with these labels
        - `archived`: include archived sessions
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
        - `beside`: use another id even if a session with this id could be continued; with the first call
        - `after`: the seq that these entries follow; 0 for the first
        - `last_seq`: the last seq of the whole log, by which a complete import is recognised
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

    async def import_history(
        self,
        source: str,
        source_id: str,
        history: Sequence[Mapping[str, Any]],
        *,
        parent_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        model: str | None = None,
        system_prompt: str | None = None,
        after: int | None = None,
        compactions: Sequence[options.ImportHistoryCompaction] | None = None,
    ) -> results.ImportHistoryResult:
        """Add a conversation of another program as a session, or what is new of it since it was last imported.

        - `source`: the program that made the conversation, such as claude-code
        - `source_id`: the id of the conversation there; with the source it decides the session's id here
        - `parent_id`: of a sub-agent's conversation: the id there of the one that started it
        - `labels`: labels of a new session, besides imported_from and imported_id
        - `model`: the model that continues a new session; without it, the configured one
        - `system_prompt`: the system prompt of a new session
        - `after`: how many messages of the conversation come before these
        - `history`: messages of users, of the model and of tools, oldest first
        - `compactions`: compactions that the other program made between these messages
        """
        answer: results.ImportHistoryResult = await self._request(
            "session/import_history",
            source=source,
            source_id=source_id,
            parent_id=parent_id,
            labels=labels,
            model=model,
            system_prompt=system_prompt,
            after=after,
            history=history,
            compactions=compactions,
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
        """Show what memory holds, what is not indexed yet, and how it searches."""
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
        - `query_exact`: forget every message, memory and schedule that contains this, in any case, spacing and encoding
        - `query`: with dry_run: list the messages a search finds; then forget those that are meant, by messages
        - `dry_run`: change nothing: list what would be erased
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
        """List the signed receipts of erasures."""
        answer: results.ListForgettingsResult = await self._request("memory/forgettings")
        return answer

    async def prune(self, *, dry_run: bool | None = None, limit: int | None = None) -> results.PruneResult:
        """Forget the sessions past their retention period, with one signed receipt.

        - `dry_run`: change nothing: list what would be erased
        - `limit`: the maximum number of sessions to erase, oldest first, up to 1000
        """
        answer: results.PruneResult = await self._request("memory/prune", dry_run=dry_run, limit=limit)
        return answer

    async def create_schedule(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        every: str | options.CreateScheduleEvery | None = None,
        at: str | None = None,
        target: Mapping[str, Any] | None = None,
        prompt: str | Sequence[Mapping[str, Any]] | None = None,
        session_id: str | None = None,
        model: str | None = None,
        tool_preset: Literal["none", "safe", "workspace", "full"] | None = None,
        budget_limits: options.BudgetLimits | None = None,
        misfire_policy: Mapping[str, Any] | None = None,
        overlap_policy: Literal["skip_if_running", "allow_concurrent", "queue", "interrupt"] | None = None,
        missing_target_policy: Literal["mark_misfired", "skip"] | None = None,
        max_cost_per_day: float | None = None,
        labels: Mapping[str, str] | None = None,
        planning_horizon_days: int | None = None,
        planning_horizon_occurrences: int | None = None,
    ) -> results.Schedule:
        """Create a schedule: turns that servers of the realm run at its times, with the rights of the caller.

        - `name`: what people call it
        - `description`: what it is for
        - `trigger`: when it is due; both days of a calendar must match, and either of a cron expression that has both
        - `cron`: minute, hour, day of month, month and day of week, such as 0 9 * * 1-5
        - `timezone`: a time zone by its IANA name, such as Europe/Berlin
        - `every`: the time between two occurrences, such as 30m or 1d
        - `at`: the one time, or with every the first
        - `target`: what it does
        - `prompt`: the prompt: a text, or a list of content blocks
        - `session_id`: the session; by default each run has its own
        - `model`: the model, such as claude-sonnet-5-5, ollama/llama3.2, offline; see rkat models
        - `tool_preset`: none · safe, the default of rkat run: time, tasks, memory · workspace: and files, shell · full:
        all there are
        - `budget_limits`: limits of the sessions it makes, so of one run in a session of its own
        - `misfire_policy`: of times that passed while no server ran: run_once, the default, runs the last; skip runs
        none that is 30 s late; catch_up_within runs each of the last window_seconds
        - `overlap_policy`: when it is due while it runs or its session is busy: skip_if_running, the default; queue
        runs once afterwards; interrupt ends what runs; allow_concurrent starts another
        - `missing_target_policy`: how an occurrence ends whose session is gone; mark_misfired by default
        - `max_cost_per_day`: what its turns may cost between two midnights, UTC, in US dollars
        - `labels`: labels to find it by
        - `planning_horizon_days`: accepted; occurrences are not planned ahead
        - `planning_horizon_occurrences`: accepted; occurrences are not planned ahead
        """
        answer: results.Schedule = await self._request(
            "schedule/create",
            name=name,
            description=description,
            trigger=trigger,
            cron=cron,
            timezone=timezone,
            every=every,
            at=at,
            target=target,
            prompt=prompt,
            session_id=session_id,
            model=model,
            tool_preset=tool_preset,
            budget_limits=budget_limits,
            misfire_policy=misfire_policy,
            overlap_policy=overlap_policy,
            missing_target_policy=missing_target_policy,
            max_cost_per_day=max_cost_per_day,
            labels=labels,
            planning_horizon_days=planning_horizon_days,
            planning_horizon_occurrences=planning_horizon_occurrences,
        )
        return answer

    async def schedules(
        self, *, labels: Mapping[str, str] | None = None, limit: int | None = None, offset: int | None = None
    ) -> list[results.Schedule]:
        """List schedules, last changed first; labels must all match.

        - `labels`: labels to find it by
        - `limit`: at most so many
        - `offset`: leave out so many first
        """
        answer = await self._request("schedule/list", labels=labels, limit=limit, offset=offset)
        schedules: list[results.Schedule] = answer["schedules"]
        return schedules

    async def schedule(self, schedule_id: str) -> results.Schedule:
        """Read a schedule: when it is due next, what it does, and whether it runs.

        - `schedule_id`: the schedule, by its id
        """
        answer: results.Schedule = await self._request("schedule/get", schedule_id=schedule_id)
        return answer

    async def update_schedule(
        self,
        schedule_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        every: str | options.CreateScheduleEvery | None = None,
        at: str | None = None,
        target: Mapping[str, Any] | None = None,
        prompt: str | Sequence[Mapping[str, Any]] | None = None,
        session_id: str | None = None,
        model: str | None = None,
        tool_preset: Literal["none", "safe", "workspace", "full"] | None = None,
        budget_limits: options.BudgetLimits | None = None,
        misfire_policy: Mapping[str, Any] | None = None,
        overlap_policy: Literal["skip_if_running", "allow_concurrent", "queue", "interrupt"] | None = None,
        missing_target_policy: Literal["mark_misfired", "skip"] | None = None,
        max_cost_per_day: float | None = None,
        labels: Mapping[str, str] | None = None,
        planning_horizon_days: int | None = None,
        planning_horizon_occurrences: int | None = None,
        expected_revision: int | None = None,
    ) -> results.Schedule:
        """Change a schedule; from then on it acts with the rights of the caller that changed it.

        - `schedule_id`: the schedule, by its id
        - `name`: what people call it
        - `description`: what it is for
        - `trigger`: when it is due; both days of a calendar must match, and either of a cron expression that has both
        - `cron`: minute, hour, day of month, month and day of week, such as 0 9 * * 1-5
        - `timezone`: a time zone by its IANA name, such as Europe/Berlin
        - `every`: the time between two occurrences, such as 30m or 1d
        - `at`: the one time, or with every the first
        - `target`: what it does
        - `prompt`: the prompt: a text, or a list of content blocks
        - `session_id`: the session; by default each run has its own
        - `model`: the model, such as claude-sonnet-5-5, ollama/llama3.2, offline; see rkat models
        - `tool_preset`: none · safe, the default of rkat run: time, tasks, memory · workspace: and files, shell · full:
        all there are
        - `budget_limits`: limits of the sessions it makes, so of one run in a session of its own
        - `misfire_policy`: of times that passed while no server ran: run_once, the default, runs the last; skip runs
        none that is 30 s late; catch_up_within runs each of the last window_seconds
        - `overlap_policy`: when it is due while it runs or its session is busy: skip_if_running, the default; queue
        runs once afterwards; interrupt ends what runs; allow_concurrent starts another
        - `missing_target_policy`: how an occurrence ends whose session is gone; mark_misfired by default
        - `max_cost_per_day`: what its turns may cost between two midnights, UTC, in US dollars
        - `labels`: labels to find it by
        - `planning_horizon_days`: accepted; occurrences are not planned ahead
        - `planning_horizon_occurrences`: accepted; occurrences are not planned ahead
        - `expected_revision`: only if this is its revision; otherwise refuse
        """
        answer: results.Schedule = await self._request(
            "schedule/update",
            schedule_id=schedule_id,
            name=name,
            description=description,
            trigger=trigger,
            cron=cron,
            timezone=timezone,
            every=every,
            at=at,
            target=target,
            prompt=prompt,
            session_id=session_id,
            model=model,
            tool_preset=tool_preset,
            budget_limits=budget_limits,
            misfire_policy=misfire_policy,
            overlap_policy=overlap_policy,
            missing_target_policy=missing_target_policy,
            max_cost_per_day=max_cost_per_day,
            labels=labels,
            planning_horizon_days=planning_horizon_days,
            planning_horizon_occurrences=planning_horizon_occurrences,
            expected_revision=expected_revision,
        )
        return answer

    async def pause_schedule(self, schedule_id: str) -> results.Schedule:
        """Pause a schedule: none of its times begins a run until it is resumed; a run goes on.

        - `schedule_id`: the schedule, by its id
        """
        answer: results.Schedule = await self._request("schedule/pause", schedule_id=schedule_id)
        return answer

    async def resume_schedule(self, schedule_id: str) -> results.Schedule:
        """Resume a paused schedule; times that passed meanwhile are not run.

        - `schedule_id`: the schedule, by its id
        """
        answer: results.Schedule = await self._request("schedule/resume", schedule_id=schedule_id)
        return answer

    async def delete_schedule(self, schedule_id: str) -> results.Schedule:
        """Delete a schedule for good; its history stays readable.

        - `schedule_id`: the schedule, by its id
        """
        answer: results.Schedule = await self._request("schedule/delete", schedule_id=schedule_id)
        return answer

    async def occurrences(
        self, schedule_id: str, *, include_terminal: bool | None = None, limit: int | None = None
    ) -> list[results.Occurrence]:
        """List a schedule's occurrences, newest first: the next time, what runs, and how each one ended.

        - `schedule_id`: the schedule, by its id
        - `include_terminal`: false leaves out those that have ended
        - `limit`: at most so many
        """
        answer = await self._request(
            "schedule/occurrences", schedule_id=schedule_id, include_terminal=include_terminal, limit=limit
        )
        occurrences: list[results.Occurrence] = answer["occurrences"]
        return occurrences

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
        """List the skills of this runtime, including those hidden by a nearer one of the same name.

        - `source_uuid`: only those of this source
        """
        answer = await self._request("skills/list", source_uuid=source_uuid)
        skills: list[results.SkillRow] = answer["skills"]
        return skills

    async def skill(
        self, skill_name: str, *, source_uuid: str | None = None, file: str | None = None
    ) -> results.SkillText:
        """Read a skill's text, or one of its files, as a model that loads the skill sees it.

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
        """Sum up the model calls, tokens and cost of all sessions and agents.

        - `by`: what usage is grouped by: model, label, day (UTC), or the token of the caller
        - `since`: only from this day on: how far back, such as 7d, or a day, such as 2026-11-01
        - `labels`: only sessions with these labels
        """
        answer: results.UsageReport = await self._request("usage/read", by=by, since=since, labels=labels)
        return answer

    async def access(self) -> results.ReadAccessResult:
        """Show the caller's identity and scopes."""
        answer: results.ReadAccessResult = await self._request("access/get")
        return answer

    async def capabilities(self) -> results.Capabilities:
        """List the capabilities of this runtime, and which are absent."""
        answer: results.Capabilities = await self._request("capabilities/get")
        return answer

    async def models(self) -> results.ModelsCatalog:
        """List the known models with their context window and output limit."""
        answer: results.ModelsCatalog = await self._request("models/catalog")
        return answer


class SessionMethods(Handle):
    """The operations on a session."""

    async def finish_turn(self, *, turn: int | None = None) -> results.RunResult:
        """Finish a turn whose process ended; steps that are in its log are not repeated.

        - `turn`: the turn, by the seq of its run_started: its end is given, also if it runs elsewhere or is over
        """
        answer: results.RunResult = await self._request("turn/finish", turn=turn)
        return answer

    async def interrupt(self) -> None:
        """Stop the running turn; an idle session does not change."""
        await self._request("turn/interrupt")

    async def read(self) -> results.SessionInfo:
        """Read the state of a session: model, labels, messages, tokens, cost."""
        answer: results.SessionInfo = await self._request("session/read")
        return answer

    async def history(self, *, limit: int | None = None, offset: int | None = None) -> results.SessionHistory:
        """Read a session's full transcript, oldest first.

        - `limit`: the maximum number of messages
        - `offset`: skip this many of the oldest
        """
        answer: results.SessionHistory = await self._request("session/history", limit=limit, offset=offset)
        return answer

    async def archive(self) -> None:
        """Archive a session: it stays readable and runs no more turns."""
        await self._request("session/archive")

    async def inject(
        self, text: str, *, source: str | None = None, idempotency_key: str | None = None
    ) -> Literal["applied", "staged", "duplicate"]:
        """Add a text that the model sees from its next call on, without running a turn.

        - `text`: the text that the model sees from its next call on
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
        """Send the model an external event, as data that it sees from its next call on; no turn is run.

        - `event_type`: what happened, a name of 1 to 200 characters
        - `payload`: facts of the event, any JSON of at most 65536 characters
        - `blocks`: a description
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

    async def inbox(self) -> list[results.ReadInbox]:
        """List the messages that wait in a session, the next one first."""
        answer = await self._request("session/inbox")
        messages: list[results.ReadInbox] = answer["messages"]
        return messages

    async def remove_inbox_message(self, message_id: str) -> None:
        """Remove a message that waits in a session, before it reaches the model.

        - `message_id`: the message, by its id
        """
        await self._request("session/inbox_remove", message_id=message_id)

    async def jobs(self) -> list[results.ListJob]:
        """List the background jobs of a session, the oldest first."""
        answer = await self._request("session/jobs")
        jobs: list[results.ListJob] = answer["jobs"]
        return jobs

    async def cancel_job(self, job_id: str) -> None:
        """Kill a background job of a session, with everything that it started.

        - `job_id`: the job's id
        """
        await self._request("session/job_cancel", job_id=job_id)

    async def end_goal(self) -> results.GoalState:
        """End the goal of a session: a turn that runs is finished, and no further one begins."""
        answer = await self._request("session/goal_end")
        goal: results.GoalState = answer["goal"]
        return goal

    async def send(
        self,
        *,
        kind: Literal["peer_message", "peer_request", "peer_response", "input"] | None = None,
        to: str | None = None,
        body: str | None = None,
        blocks: Sequence[options.TextBlock] | None = None,
        intent: str | None = None,
        params: Any = None,
        in_reply_to: str | None = None,
        status: Literal["accepted", "completed", "failed"] | None = None,
        result: Any = None,
        handling_mode: Literal["queue", "steer"] | None = None,
        source: Literal["tcp", "uds", "stdin", "webhook", "rpc"] | None = None,
        stream: Literal["none", "reserve_interaction"] | None = None,
        allow_self_session: bool | None = None,
    ) -> results.CommsReceipt:
        """Send a message from one session to another of the realm, whose model is shown it as data.

        - `kind`: what kind it is
        - `to`: the session that gets it, by its comms_name or its id
        - `body`: the text
        - `blocks`: further text, below it
        - `intent`: what is asked for, such as review
        - `params`: details of what is asked for, any JSON
        - `in_reply_to`: the request, by its request_id
        - `status`: accepted: work on the request has begun; completed or failed: it has ended
        - `result`: what came of it, any JSON
        - `handling_mode`: queue: it begins a turn of its own; steer: the running turn is shown it with its next model
        call
        - `source`: of an input: where it comes from; the model sees it
        - `stream`: accepted from clients that ask for it; no stream is reserved, and the receipt says so
        - `allow_self_session`: of an input: accepted; it is always for this session
        """
        answer: results.CommsReceipt = await self._request(
            "comms/send",
            kind=kind,
            to=to,
            body=body,
            blocks=blocks,
            intent=intent,
            params=params,
            in_reply_to=in_reply_to,
            status=status,
            result=result,
            handling_mode=handling_mode,
            source=source,
            stream=stream,
            allow_self_session=allow_self_session,
        )
        return answer

    async def peers(self) -> list[results.ListPeer]:
        """List the sessions of the realm that a session can send messages to."""
        answer = await self._request("comms/peers")
        peers: list[results.ListPeer] = answer["peers"]
        return peers

    async def export(self, *, after: int | None = None, limit: int | None = None) -> results.ExportSessionResult:
        """Read a session's whole log, a page at a time, to be imported elsewhere as the same session.

        - `after`: only what follows this seq
        - `limit`: the maximum number of entries; fewer if they are large
        """
        answer: results.ExportSessionResult = await self._request("session/export", after=after, limit=limit)
        return answer

    async def answer_approval(
        self,
        approval_id: str,
        decision: Literal["allow", "deny", "cancel"],
        *,
        remember: Literal["once", "session", "project"] | None = None,
        calls: Sequence[str] | None = None,
        reason: str | None = None,
        content: Mapping[str, Any] | None = None,
    ) -> results.AnswerApprovalResult:
        """Approve or deny tool calls that wait for approval; the turn continues here once none of its calls waits.

        - `approval_id`: the id of the approval request
        - `decision`: whether the calls may run; a server's question is answered, declined or dismissed by it
        - `remember`: how long an approval holds: once, or for calls like these in the session or the project
        - `calls`: the calls that it answers; by default all that wait
        - `reason`: why not; the model sees it
        - `content`: the answer to an MCP server's question, by its schema; only with allow
        """
        answer: results.AnswerApprovalResult = await self._request(
            "session/answer_approval",
            approval_id=approval_id,
            decision=decision,
            remember=remember,
            calls=calls,
            reason=reason,
            content=content,
        )
        return answer

    async def add_mcp_server(
        self, server_config: options.CheckedServer, persisted: Literal[False] | None = None
    ) -> results.AddMcpServerResult:
        """Add an MCP server to a session: its tools are there from the next turn on.

        - `server_config`: the server: a command to start, or a url
        - `persisted`: false: the session keeps the change, and no file is written
        """
        answer: results.AddMcpServerResult = await self._request(
            "mcp/add", server_config=server_config, persisted=persisted
        )
        return answer

    async def remove_mcp_server(
        self, server_name: str, persisted: Literal[False] | None = None
    ) -> results.AddMcpServerResult:
        """Remove an MCP server from a session, also a configured one: its tools are gone from the next turn on.

        - `server_name`: the server, by its name
        - `persisted`: false: the session keeps the change, and no file is written
        """
        answer: results.AddMcpServerResult = await self._request(
            "mcp/remove", server_name=server_name, persisted=persisted
        )
        return answer

    async def reload_mcp_servers(
        self, *, server_name: str | None = None, persisted: Literal[False] | None = None
    ) -> results.AddMcpServerResult:
        """Connect again to an MCP server of a session, or to all of them, before the next turn.

        - `server_name`: the server, by its name
        - `persisted`: false: the session keeps the change, and no file is written
        """
        answer: results.AddMcpServerResult = await self._request(
            "mcp/reload", server_name=server_name, persisted=persisted
        )
        return answer

    async def revision(
        self, revision: str, *, limit: int | None = None, offset: int | None = None
    ) -> results.TranscriptRevision:
        """Read a transcript as it was at a revision, or as it is now, with its revision.

        - `revision`: the revision to read, or current
        - `limit`: the maximum number of messages
        - `offset`: skip this many of the oldest
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
        """Read the model's context now, or at an earlier call, byte for byte.

        - `at_seq`: at the model call with this seq, as in events
        """
        answer: results.SessionContext = await self._request("session/context", at_seq=at_seq)
        return answer

    async def model_calls(self, *, limit: int | None = None, before_seq: int | None = None) -> results.ModelCalls:
        """List a session's newest model calls, oldest first, with what filled the context of each.

        - `limit`: the maximum number of calls: 200 by default, 1000 at most
        - `before_seq`: only calls before the one with this seq
        """
        answer: results.ModelCalls = await self._request("session/model_calls", limit=limit, before_seq=before_seq)
        return answer

    async def compact(self, *, preview: bool | None = None, instructions: str | None = None) -> results.CompactResult:
        """Compact a session's context now, or preview what that would keep, drop and cost.

        - `preview`: change nothing: return what would be kept and removed, and what it would cost
        - `instructions`: what the summary must not omit
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
        """Show which messages each sentence of a compaction's summary comes from, by its names, numbers and words.

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
        """Bring turns that a compaction removed back into the context.

        - `compaction_id`: the compaction, by its id
        - `from_seq`: from the message with this seq on
        - `to_seq`: up to the message with this seq
        - `max_tokens`: the maximum tokens to bring back; without it, up to the threshold
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
        """Unpin a message; a message that only its pin kept in the context leaves it, at the next compaction at the
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
        - `limit`: the maximum number of entries; fewer if they are large
        """
        answer: results.ExportAgentResult = await self._request("agent/export", after=after, limit=limit)
        return answer

    async def remember(self, content: str, metadata: Mapping[str, Any] | None = None) -> results.Remembered:
        """Add a memory to an agent; a compaction that becomes due runs in the background.

        - `content`: the memory, as a text
        - `metadata`: facts to store with it, as a JSON object
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
        """Read an agent's context: both summaries, the newest memories, and all of it as a prompt.

        - `immediate`: the number of the newest memories; without it, all that no summary covers, at least 64
        """
        answer: results.AgentContext = await self._request("agent/context", immediate=immediate)
        return answer

    async def compact(self) -> results.AgentCompacted:
        """Compact an agent's memories now, whether or not it is due."""
        answer: results.AgentCompacted = await self._request("agent/compact")
        return answer

    async def status(self) -> results.AgentStatus:
        """Show the state of an agent's memory: counts, tiers, summaries, the last compaction and the next."""
        answer: results.AgentStatus = await self._request("agent/status")
        return answer

    async def history(self, *, limit: int | None = None, before_seq: int | None = None) -> results.AgentHistory:
        """Read all summaries of an agent's memories, newest first.

        - `limit`: the maximum number of compactions: 50 by default, 200 at most
        - `before_seq`: only summaries before the one with this seq
        """
        answer: results.AgentHistory = await self._request("agent/history", limit=limit, before_seq=before_seq)
        return answer

    async def receipt(self, *, seq: int | None = None) -> results.AgentReceipt:
        """Read what a compaction of an agent kept, removed or lost, what its summaries invented, and their quality.

        - `seq`: the compaction with this seq in the agent's log, as its history has it; without it, the last
        """
        answer: results.AgentReceipt = await self._request("agent/receipt", seq=seq)
        return answer
