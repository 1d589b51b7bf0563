import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { FACTS, FILLER, PREFERENCES } from "./recall-sample.ts";

export interface Said {
  readonly key: string;
  readonly text: string;
  readonly atMs: number;
}

export interface Question {
  readonly type: string;
  readonly text: string;
  /** Keys of what answers it. */
  readonly gold: ReadonlySet<string>;
}

/** Questions that are asked before a session is said; the last step may have no session. */
export interface Step {
  readonly questions: readonly Question[];
  readonly session: { readonly id: string; readonly said: readonly Said[] } | undefined;
}

/** One memory, growing step by step. */
export type Case = readonly Step[];

export interface DataSet {
  readonly name: string;
  readonly cases: readonly Case[];
}

/** Public sets lie beside the repository, since their licences keep them out of it; our own sample is always there. */
export async function loadDataSets(): Promise<readonly DataSet[]> {
  const folder = join(import.meta.dirname, "../../shared/bench-data");
  const sample = [
    { name: "preferences", cases: planted("preference", PREFERENCES) },
    { name: "facts", cases: planted("fact", FACTS) },
  ];
  if (!existsSync(folder)) return sample;
  return [
    { name: "LoCoMo", cases: await loadLocomo(join(folder, "locomo/locomo10.json")) },
    { name: "RealMem", cases: await loadRealMem(join(folder, "realmem")) },
    ...sample,
  ];
}

/** Each statement alone in a session of its own among talk of other things. */
function planted(type: string, rows: readonly (readonly [string, string])[]): readonly Case[] {
  const filler = FILLER.map((talk, index) => sessionStep(`talk-${index}`, talk));
  return rows.map(([said, asked]) => [
    ...filler.slice(0, FILLER.length / 2),
    sessionStep("planted", [said]),
    ...filler.slice(FILLER.length / 2),
    { questions: [{ type, text: asked, gold: new Set(["planted#0"]) }], session: undefined },
  ]);
}

function sessionStep(id: string, talk: readonly string[]): Step {
  return {
    questions: [],
    session: { id, said: talk.map((text, index) => ({ key: `${id}#${index}`, text, atMs: 0 })) },
  };
}

const LOCOMO_TYPES = ["", "multi-hop", "temporal", "open-domain", "single-hop", "adversarial"];

interface LocomoTurn {
  readonly dia_id: string;
  readonly speaker: string;
  readonly text: string;
  readonly blip_caption?: string;
}

interface LocomoConversation {
  readonly conversation: Readonly<Record<string, string | readonly LocomoTurn[]>>;
  readonly qa: readonly {
    readonly question: string;
    readonly category: number;
    readonly evidence?: readonly string[];
  }[];
}

async function loadLocomo(path: string): Promise<readonly Case[]> {
  // The layout of the public file.
  const conversations = JSON.parse(await readFile(path, "utf8")) as readonly LocomoConversation[];
  return conversations.map(({ conversation, qa }) => {
    const steps: Step[] = [];
    for (let index = 1; Array.isArray(conversation[`session_${index}`]); index += 1) {
      const turns = conversation[`session_${index}`] as readonly LocomoTurn[]; // an array, by the condition above
      const said = turns.map((turn) => toSaid(turn, String(conversation[`session_${index}_date_time`])));
      steps.push({ questions: [], session: { id: `session-${index}`, said } });
    }
    const keys = new Set(steps.flatMap(({ session }) => session?.said.map(({ key }) => key) ?? []));
    const questions = qa.flatMap(({ question, category, evidence = [] }): readonly Question[] => {
      const gold = new Set(evidence.flatMap(evidenceKeys).filter((key) => keys.has(key)));
      return gold.size === 0 ? [] : [{ type: LOCOMO_TYPES[category] ?? "other", text: question, gold }];
    });
    return [...steps, { questions, session: undefined }];
  });
}

function toSaid({ dia_id, speaker, text, blip_caption }: LocomoTurn, time: string): Said {
  const shares = blip_caption === undefined ? "" : ` [shares ${blip_caption}]`;
  const [, day = ""] = time.split(" on ");
  return { key: dia_id, text: `[${time}] ${speaker}: ${text}${shares}`, atMs: Date.parse(`${day} UTC`) };
}

/** Some are joined ("D8:6; D9:17"), padded ("D30:05") or misspelt ("D:11:26"). */
function evidenceKeys(evidence: string): readonly string[] {
  const plain = evidence.replaceAll(/D:(\d)/g, "D$1");
  return [...plain.matchAll(/D(\d+):0*(\d+)/g)].map(([, session, turn]) => `D${session}:${turn}`);
}

interface RealMemUse {
  readonly session_uuid?: string;
  readonly content: string;
}

interface RealMemDialogue {
  readonly session_uuid: string;
  readonly current_time: string;
  readonly dialogue_turns: readonly {
    readonly content: string;
    readonly is_query?: boolean;
    readonly category_name?: string;
    readonly memory_used?: readonly (RealMemUse | null)[];
  }[];
  readonly extracted_memory?: readonly { readonly content: string; readonly source_content_snapshot?: string }[];
}

async function loadRealMem(folder: string): Promise<readonly Case[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".json")).sort();
  return Promise.all(
    names.map(async (name) => {
      // The layout of the public files.
      const { dialogues } = JSON.parse(await readFile(join(folder, name), "utf8")) as {
        readonly dialogues: readonly RealMemDialogue[];
      };
      const earlier = new Map<string, RealMemDialogue>();
      return dialogues.map((dialogue) => {
        const step = { questions: realMemQuestions(dialogue, earlier), session: realMemSession(dialogue) };
        earlier.set(dialogue.session_uuid, dialogue);
        return step;
      });
    }),
  );
}

function realMemSession({ session_uuid, current_time, dialogue_turns }: RealMemDialogue): Step["session"] {
  const atMs = Date.parse(current_time.slice(0, 10));
  return {
    id: session_uuid,
    said: dialogue_turns.map(({ content }, index) => ({ key: `${session_uuid}#${index}`, text: content, atMs })),
  };
}

function realMemQuestions(dialogue: RealMemDialogue, earlier: ReadonlyMap<string, RealMemDialogue>): Question[] {
  return dialogue.dialogue_turns.flatMap((turn, index, turns): readonly Question[] => {
    if (turn.is_query !== true) return [];
    const used = turns[index + 1]?.memory_used ?? [];
    const gold = new Set(used.flatMap((use) => sourcesOf(use, earlier)));
    return gold.size === 0 ? [] : [{ type: turn.category_name ?? "other", text: turn.content, gold }];
  });
}

const SNAPSHOT_CHARS = 40;

function sourcesOf(use: RealMemUse | null, earlier: ReadonlyMap<string, RealMemDialogue>): readonly string[] {
  const source = earlier.get(use?.session_uuid ?? "");
  if (use === null || source === undefined) return [];
  return (source.extracted_memory ?? [])
    .filter(({ content }) => content.trim() === use.content.trim())
    .map(({ source_content_snapshot = "" }) => source_content_snapshot.slice(0, SNAPSHOT_CHARS))
    .filter((start) => start !== "")
    .map((start) => source.dialogue_turns.findIndex(({ content }) => content.slice(0, SNAPSHOT_CHARS) === start))
    .filter((index) => index >= 0)
    .map((index) => `${source.session_uuid}#${index}`);
}
