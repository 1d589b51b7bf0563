import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { FACTS, FILLER, PREFERENCES } from "./recall-sample.ts";

export interface Said {
  readonly key: string;
  readonly text: string;
  readonly atMs: number;
  /** A user unless it is said. */
  readonly role?: "user" | "assistant";
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

/** Public sets lie outside the repository, since their licences keep them out of it; our own sample is always there. */
export async function loadDataSets(
  folder = join(import.meta.dirname, "../../shared/bench-data"),
): Promise<readonly DataSet[]> {
  const sample = [
    { name: "preferences", cases: planted("preference", PREFERENCES) },
    { name: "facts", cases: planted("fact", FACTS) },
  ];
  const loaded = Object.entries(PUBLIC_SETS).map(async ([name, { path, load }]): Promise<readonly DataSet[]> => {
    const place = join(folder, path);
    if (!existsSync(place)) return [];
    const cases = await load(place);
    return name === "LoCoMo"
      ? [
          { name, cases },
          { name: `${name}, one session`, cases: cases.map(asOneSession) },
        ]
      : [{ name, cases }];
  });
  return [...(await Promise.all(loaded)).flat(), ...sample];
}

interface PublicSet {
  readonly path: string;
  readonly load: (place: string) => Promise<readonly Case[]>;
}

/** Those that are there are measured. */
const PUBLIC_SETS: Readonly<Record<string, PublicSet>> = {
  LoCoMo: { path: "locomo/locomo10.json", load: loadLocomo },
  RealMem: { path: "realmem", load: loadRealMem },
  BEAM: { path: "beam/100K", load: loadBeam },
  MemDaily: { path: "memdaily", load: loadMemDaily },
};

/** The same, said in a session that never ends. */
function asOneSession(steps: Case): Case {
  return steps.map((step) => ({ ...step, session: step.session && { ...step.session, id: "one" } }));
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
    readonly speaker: string;
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
    said: dialogue_turns.map(({ speaker, content }, index) => ({
      key: `${session_uuid}#${index}`,
      text: content,
      atMs,
      role: speaker.toLowerCase() === "assistant" ? "assistant" : "user",
    })),
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

interface BeamBatch {
  readonly batch_number: number;
  readonly turns: readonly (readonly {
    readonly id: number;
    readonly role: string;
    readonly content: string;
    readonly time_anchor?: string;
  }[])[];
}

async function loadBeam(folder: string): Promise<readonly Case[]> {
  const names = (await readdir(folder)).sort();
  return Promise.all(
    names.map(async (name) => {
      // The layout of the public files.
      const batches = await readJson<readonly BeamBatch[]>(join(folder, name, "chat.json"));
      const asked = await readJson<
        Readonly<Record<string, readonly { readonly question: string; readonly source_chat_ids?: unknown }[]>>
      >(join(folder, name, "probing_questions.json"));
      const steps = batches.flatMap(({ batch_number, turns }) =>
        turns.map((said, index): Step => ({ questions: [], session: beamSession(`${batch_number} ${index}`, said) })),
      );
      const keys = new Set(steps.flatMap(({ session }) => session?.said.map(({ key }) => key) ?? []));
      const questions = Object.entries(asked).flatMap(([type, rows]) =>
        rows.map(({ question, source_chat_ids }) => {
          const gold = new Set(
            numbersIn(source_chat_ids)
              .map(String)
              .filter((key) => keys.has(key)),
          );
          return { type, text: question, gold };
        }),
      );
      return [...steps, { questions: questions.filter(({ gold }) => gold.size > 0), session: undefined }];
    }),
  );
}

function beamSession(id: string, said: BeamBatch["turns"][number]): Step["session"] {
  return {
    id,
    said: said.map(({ id: key, role, content, time_anchor = "" }) => ({
      key: String(key),
      // Where the public files say what a message was made from.
      text: content.replace(/\s*->->\s*[\d,. N/A]+\s*$/, ""),
      atMs: Number.isNaN(Date.parse(time_anchor)) ? 0 : Date.parse(time_anchor),
      role: role === "assistant" ? "assistant" : "user",
    })),
  };
}

/** They stand alone, in lists, or by name. */
function numbersIn(value: unknown): readonly number[] {
  if (typeof value === "number") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(numbersIn) : [];
}

interface MemDailyTalk {
  readonly message_list?: readonly { readonly mid: number; readonly message: string; readonly time: string }[];
  readonly question_list?: readonly { readonly question: string; readonly target_step_id?: readonly number[] }[];
}

async function loadMemDaily(folder: string): Promise<readonly Case[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".json")).sort();
  const talks = names.map(async (name) => {
    const rows = await readJson<readonly MemDailyTalk[]>(join(folder, name));
    return rows.map(({ message_list = [], question_list = [] }): Case => {
      const said = message_list.map(({ mid, message }) => ({ key: String(mid), text: message, atMs: 0 }));
      const questions = question_list.map(({ question, target_step_id = [] }) => ({
        type: name.replace(/\.json$/, ""),
        text: question,
        gold: new Set(target_step_id.map(String)),
      }));
      return [
        { questions: [], session: { id: "talk", said } },
        { questions: questions.filter(({ gold }) => gold.size > 0), session: undefined },
      ];
    });
  });
  return (await Promise.all(talks)).flat();
}

/** What the caller says the file holds. */
async function readJson<T>(path: string): Promise<T> {
  return JSON.parse(await readFile(path, "utf8")) as T;
}
