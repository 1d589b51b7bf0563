/** A life to remember: a plain day after day, and in every tenth memory a fact that is said once. */

export interface PlantedFact {
  readonly memory: number;
  /** How someone would ask for it, in other words than all of its own. */
  readonly question: string;
  readonly answer: string;
}

const PEOPLE = ["Bo", "Cara", "Dmitri", "Eve", "Farid", "Greta", "Hana", "Ivo", "Jun", "Kofi", "Lena", "Mato"];
const THINGS = [
  "locker",
  "greenhouse",
  "boat shed",
  "bicycle",
  "wine cellar",
  "piano",
  "lighthouse",
  "beehive",
  "forge",
];
const DOINGS = [
  "watered the beans and swept the yard",
  "walked to the mill and back in the rain",
  "mended the fence by the lower gate",
  "listened to the radio while the bread rose",
  "counted the hens twice and got two numbers",
  "talked about the weather with a neighbour",
];
const FACT_EVERY = 10;

const pick = <T>(from: readonly T[], at: number): T | undefined => from[at % from.length];

/** The fact a memory holds, if it holds one. Codes never repeat; people and things do. */
export function factIn(memory: number): PlantedFact | undefined {
  if (memory % FACT_EVERY !== 3) return undefined;
  const nth = Math.floor(memory / FACT_EVERY);
  const person = pick(PEOPLE, nth * 7 + Math.floor(nth / PEOPLE.length));
  const thing = pick(THINGS, nth * 5 + Math.floor(nth / THINGS.length));
  const day = Math.floor(memory / 24) + 1;
  const answer = `${thing?.charAt(0).toUpperCase()}${(nth * 7_919 + 10_007) % 100_000}`;
  return { memory, answer, question: `What was the code of ${person}'s ${thing}, told to me on day ${day}?` };
}

export function memoryText(memory: number): string {
  const fact = factIn(memory);
  const day = Math.floor(memory / 24) + 1;
  if (fact === undefined) return `Day ${day}: I ${pick(DOINGS, memory * 31)}.`;
  const [, owner = ""] = /code of (.*?), told/.exec(fact.question) ?? [];
  return `Day ${day}: somebody told me that the code of ${owner} is ${fact.answer}.`;
}
