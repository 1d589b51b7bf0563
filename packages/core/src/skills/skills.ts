import { pinnedIn } from "../compaction/shown-messages.ts";
import { type CompactionPart, requireReachableFor } from "../compactions/compaction-part.ts";
import type { EntryBody } from "../contract/entry.ts";
import { asRuntimeError, messageOf, RuntimeError } from "../contract/error.ts";
import type { SkillRef } from "../contract/input.ts";
import type { SessionSettings } from "../contract/session.ts";
import { SKILL_NAME, SKILL_NOTICE, type SkillText } from "../contract/skill.ts";
import type { ReadAgentsMd } from "../ports/agents-md.ts";
import type { Clock } from "../ports/clock.ts";
import type { ToolSpec } from "../ports/model.ts";
import type { Skill } from "../ports/skill.ts";
import type { Store } from "../ports/store.ts";
import type { Service } from "../runtime/dispatch.ts";
import { appendEntries, type LiveSession, type LiveSessions } from "../sessions/live-sessions.ts";
import type { Hash } from "../state/context.ts";
import type { SessionState } from "../state/session-state.ts";
import { nearMiss } from "../text/near-miss.ts";
import type { Redact } from "../turn/redact.ts";
import { loadedSkills } from "../turn/skills.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { agentsMdEntries } from "./agents-md.ts";
import { isMemory, keyOf, MEMORY, noticeText, type SkillCatalogue } from "./skill-catalogue.ts";

export interface SkillParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly redact: Redact;
  readonly catalogue: SkillCatalogue;
  readonly live: Pick<LiveSessions, "find">;
  isOn(): boolean;
  readonly hasMemory: boolean;
  hasAgentsMd(): boolean;
  /** Absent: this process knows no AGENTS.md, and leaves what sessions have. */
  readonly readAgentsMd: ReadAgentsMd | undefined;
  readonly hash: Hash;
  warn(sentence: string): void;
  /** The room that pins must leave. */
  pinningIn(session: LiveSession): Pinning;
}

/** The limit of pins. */
interface Pinning {
  readonly compaction: CompactionPart | undefined;
  tools(): Iterable<ToolSpec>;
  readonly contextWindow: number | undefined;
}

/** The part of a session that loading reads. */
type Held = Pick<SessionState, "shown" | "heldNotices" | "pins">;
const NOTHING: Held = { shown: [], heldNotices: [], pins: new Set() };

interface Naming {
  readonly skill_refs?: readonly SkillRef[] | null | undefined;
  readonly preload_skills?: readonly SkillRef[] | null | undefined;
}

export interface Skills {
  readonly operations: Pick<Service, "listSkills" | "readSkill">;
  /**
   * The entries that a turn begins with: they load the requested skills, none for loaded ones, and what AGENTS.md says
   * now. Throws SKILL_NOT_FOUND or SKILL_RESOLUTION_FAILED
   * before anything is written.
   */
  entriesFor(input: Naming, settings: SessionSettings, into: Pinning, held?: Held): Promise<readonly EntryBody[]>;
  load(
    sessionId: string,
    asked: { readonly name?: string | undefined; readonly file?: string | undefined },
  ): Promise<string>;
}

/** The longest recorded unknown name: a model may have written anything. */
const REFERENCE_CHARS_MAX = 256;

/** Loads skills for requests and for models. */
export function createSkills(parts: SkillParts): Skills {
  const { catalogue, store, clock } = parts;
  const requireOn = (): void => {
    if (!parts.isOn()) throw new RuntimeError("INTERNAL_ERROR", "skills not enabled");
  };
  const namesHere = (): readonly string[] => [...catalogue.names, ...(parts.hasMemory ? [MEMORY.row.name] : [])];
  const noticeOf = (skill: Skill, body: string, sha256: string): EntryBody => ({
    kind: "notice",
    message: {
      role: "system_notice",
      kind: SKILL_NOTICE,
      body: parts.redact(noticeText(skill, body)),
      skill: { ...keyOf(skill), sha256 },
      created_at: new Date(clock.now()).toISOString(),
    },
  });

  const entriesFor: Skills["entriesFor"] = async (input, settings, into, held = NOTHING) => {
    const wanted = new Map<Skill, EntryBody[]>();
    for (const field of ["preload_skills", "skill_refs"] as const) {
      for (const ref of input[field] ?? []) {
        // Its text is part of every request of a session with memory.
        if (isMemory(ref) && settings.tools.memory) continue;
        const skill = isMemory(ref) ? undefined : catalogue.find(ref);
        if (skill === undefined) throw notFound(field, ref, namesHere());
        requireOn();
        if (!wanted.has(skill)) wanted.set(skill, await loadingOf(skill, held));
      }
    }
    const bodies = [...wanted.values()].flat();
    requireRoom(bodies, settings, into, held);
    const instructions = await agentsMdFor(settings, held);
    try {
      requireRoom([...instructions, ...bodies], settings, into, held);
      return [...instructions, ...bodies];
    } catch (thrown) {
      // A turn does not fail because of it.
      parts.warn(`AGENTS.md is too long for the context of this session, so it is left out: ${messageOf(thrown)}`);
      return bodies;
    }
  };
  const agentsMdFor = async ({ agents_md }: SessionSettings, held: Held): Promise<readonly EntryBody[]> => {
    if (parts.readAgentsMd === undefined) return [];
    const isRead = agents_md === true && parts.hasAgentsMd();
    const { files, warnings } = isRead ? await parts.readAgentsMd() : { files: [], warnings: [] };
    for (const sentence of warnings) parts.warn(sentence);
    const created_at = new Date(clock.now()).toISOString();
    return agentsMdEntries(files, held, { hash: parts.hash, redact: parts.redact, created_at });
  };
  const loadingOf = async (skill: Skill, held: Held): Promise<EntryBody[]> => {
    const { body, sha256 } = await catalogue.read(skill);
    return loadingBodies(noticeOf(skill, body, sha256), skill, { sha256, held });
  };

  const load: Skills["load"] = async (sessionId, { name, file }) => {
    requireOn();
    if (name === undefined) return catalogue.lines.join("\n");
    const session = await parts.live.find(sessionId);
    try {
      const skill = catalogue.find({ skill_name: name });
      if (skill === undefined) throw notFound("name", { skill_name: name }, namesHere());
      if (file !== undefined) return await skill.readFile(file);
      const { body, sha256 } = await catalogue.read(skill);
      const notice = noticeOf(skill, body, sha256);
      const { state } = session;
      const into = parts.pinningIn(session);
      requireRoom(loadingBodies(notice, skill, { sha256, held: state }), state.settings, into, state);
      let isNew = false;
      // Two calls of one answer may load the same skill.
      await appendEntries(store.log, session, () => {
        const bodies = loadingBodies(notice, skill, { sha256, held: state });
        isNew = bodies.length > 0;
        return bodies;
      });
      return isNew
        ? `skill ${name} is loaded: its text follows`
        : `skill ${name} is loaded already: its text stands in the context`;
    } catch (thrown) {
      const error = asRuntimeError(thrown);
      await reportFailure(session, name, error);
      throw error;
    }
  };
  const reportFailure = async (session: LiveSession, reference: string, { code, message, details }: RuntimeError) => {
    if (code !== "SKILL_NOT_FOUND" && code !== "SKILL_RESOLUTION_FAILED") return;
    const skill = catalogue.find({ skill_name: reference });
    const reason = { reason_type: code === "SKILL_NOT_FOUND" ? "not_found" : String(Object(details).reason_type) };
    const key = skill === undefined ? {} : { skill_key: keyOf(skill) };
    const error = parts.redact(message);
    const named = parts.redact(reference).slice(0, REFERENCE_CHARS_MAX);
    const event = { type: "skill_resolution_failed" as const, ...key, reason, reference: named, error };
    await appendEntries(store.log, session, [{ kind: "event", event }]);
  };

  return {
    entriesFor,
    load,
    operations: {
      listSkills: async ({ source_uuid }) => {
        requireOn();
        const rows = [...(parts.hasMemory ? [MEMORY.row] : []), ...(await catalogue.rows())];
        return { skills: rows.filter(({ key }) => source_uuid === undefined || key.source_uuid === source_uuid) };
      },
      readSkill: async ({ source_uuid, skill_name, file }): Promise<SkillText> => {
        requireOn();
        const ref = { skill_name, ...(source_uuid === undefined ? {} : { source_uuid }) };
        if (isMemory(ref) && parts.hasMemory && file === undefined) return { ...MEMORY.row, body: MEMORY.body };
        const skill = isMemory(ref) ? undefined : catalogue.find(ref);
        if (skill === undefined) throw notFound("skill_name", ref, namesHere());
        if (file !== undefined) return { ...(await catalogue.rowOf(skill)), body: await skill.readFile(file) };
        const { body, allowedTools } = await catalogue.read(skill);
        const { files } = skill;
        return {
          ...(await catalogue.rowOf(skill)),
          body,
          ...(files.length === 0 ? {} : { files: [...files] }),
          ...(allowedTools.length === 0 ? {} : { allowed_tools: [...allowedTools] }),
        };
      },
    },
  };
}

/** The entries that load a skill: none if this text is loaded; another text is unloaded first. */
function loadingBodies(
  notice: EntryBody,
  skill: Skill,
  { sha256, held }: { readonly sha256: string; readonly held: Held },
): EntryBody[] {
  const { source_uuid, skill_name } = keyOf(skill);
  const same = loadedSkills(held).filter((one) => one.source_uuid === source_uuid && one.skill_name === skill_name);
  if (same.some((one) => one.sha256 === sha256)) return [];
  return [...same.map(({ seq }): EntryBody => ({ kind: "pinned", seq, pinned: false })), notice];
}

/** Rejects texts that, with the current pins, would leave a compaction nothing to remove. */
function requireRoom(
  bodies: readonly EntryBody[],
  settings: SessionSettings,
  { compaction, tools, contextWindow }: Pinning,
  { shown, heldNotices, pins }: Held,
): void {
  const added = bodies.flatMap((body) => (body.kind === "notice" ? [body.message] : []));
  if (compaction === undefined || added.length === 0) return;
  const gone = new Set(bodies.flatMap((body) => (body.kind === "pinned" ? [body.seq] : [])));
  const kept = new Set([...pins].filter((seq) => !gone.has(seq)));
  const pinned = [...pinnedIn([...shown, ...heldNotices], kept)].map(({ message }) => message);
  const pinTokens = estimateTokens([...pinned, ...added]);
  requireReachableFor(compaction, settings, { tools: tools(), pinTokens, contextWindow, isAlways: true });
}

const LISTED_BY = { tool: "load_skill without a name", caller: "rkat skill list, or skills/list," };

function notFound(field: string, { source_uuid, skill_name }: SkillRef, names: readonly string[]): RuntimeError {
  const shown = SKILL_NAME.test(skill_name) ? skill_name : JSON.stringify(skill_name.slice(0, 80));
  const name = source_uuid === undefined ? shown : `${shown} of ${source_uuid}`;
  const meant = nearMiss(skill_name, names);
  const hint = meant === undefined ? "" : `did you mean ${meant}? `;
  return new RuntimeError(
    "SKILL_NOT_FOUND",
    `${field}: there is no skill ${name} here; ${hint}${LISTED_BY[field === "name" ? "tool" : "caller"]} names all of them`,
  );
}

/** Cached rules; others are read again. */
const LEARNT_MAX = 4_096;

/** The patterns that a session's loaded skills allow; those loaded by another process are read on first use. */
export function createSkillRules(
  catalogue: Pick<SkillCatalogue, "allowedBy" | "learn">,
): (state: SessionState) => Promise<readonly string[]> {
  const learnt = new Set<string>();
  const nameOf = ({ source_uuid, skill_name, sha256 }: ReturnType<typeof loadedSkills>[number]): string =>
    JSON.stringify([source_uuid, skill_name, sha256]);
  return async (state) => {
    const loaded = loadedSkills(state);
    const unknown = loaded.filter((one) => !learnt.has(nameOf(one)));
    if (unknown.length > 0) await catalogue.learn(unknown);
    if (learnt.size > LEARNT_MAX) learnt.clear();
    for (const one of unknown) learnt.add(nameOf(one));
    return catalogue.allowedBy(loaded);
  };
}
