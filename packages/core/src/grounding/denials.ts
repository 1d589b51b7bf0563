import { isUnspaced, matchesOf } from "../text/canonical.ts";

/** Words that negate, insist or limit, by effect: each changes the meaning of a sentence. */
const WORDS: Readonly<Record<string, string>> = {
  not: "not no non none nobody nothing neither nor cannot nicht kein keine keinen keinem keiner keines nichts niemand weder pas aucun aucune rien personne não niet geen niets niemand не нет ни inte ikke ingen ingenting nessuno niente nada nadie ninguém",
  never: "never nie niemals nimmer keinesfalls jamais nunca nooit никогда aldrig aldri nikdy nigdy",
  without: "without ohne sans sem zonder без utan uden uten senza bez",
  always: "always immer stets toujours siempre sempre altijd всегда alltid altid",
  only: "only nur seulement uniquement solo soltanto somente slechts alleen только endast bara kun",
};
const CLASS_OF = new Map(
  Object.entries(WORDS).flatMap(([name, words]) => words.split(" ").map((word) => [word, name] as const)),
);
/** Apostrophes are typed in two ways, or omitted. */
const SHORT_NOT = /^(?:is|are|was|were|do|does|did|has|have|had|ca|wo|sha|must|should|would|could|need)n[’']?t$/u;
const WORD = /[\p{L}\p{M}]+(?:[’'](?:t(?!\p{L})))?/gu;
/** In French `plus` negates only after `ne`. */
const NO_MORE = /(?<!\p{L})(?:ne\s|n[’'])\s?\p{L}+(?:\s\p{L}+)?\s(?:plus|que)(?!\p{L})/giu;

/** "Can or can not" asks and negates nothing. */
const EITHER_OR = /(\p{Script=Han})[不没]\1/gu;
const UNSPACED: readonly (readonly [name: string, form: RegExp])[] = [
  ["always", /总是|總是|一直|始终|一律|永远|必ず|常に|いつも/gu],
  ["only", /只有?|仅|唯一|のみ|だけ|しか/gu],
  ["never", /从不|从未|绝不|决不|決して/gu],
  [
    "not",
    /禁止|严禁|不可|不(?![明同过仅断])|没有?|勿|莫|(?<![特分区類类级性差识])别(?![的人处])|未(?!来|定|決|解)|无(?!论)|ない|なかった|なく|なけれ|ません|ずに|せず|なし|無し/gu,
  ],
];

/** The negations, insistences and limits of a clause as one comparable text. */
export function denialsIn(text: string): string {
  const found: string[] = [];
  const folded = text.normalize("NFKC").toLowerCase();
  for (const [word] of matchesOf(WORD, folded)) {
    const name = CLASS_OF.get(word) ?? (SHORT_NOT.test(word) ? "not" : undefined);
    if (name !== undefined) found.push(name);
  }
  for (const _ of matchesOf(NO_MORE, folded)) found.push("no more");
  if (isUnspaced(folded)) found.push(...unspacedDenials(folded));
  return found.sort().join(" ");
}

function unspacedDenials(text: string): readonly string[] {
  const found: string[] = [];
  let rest = text.replace(EITHER_OR, "$1");
  for (const [name, form] of UNSPACED) {
    rest = rest.replace(form, () => {
      found.push(name);
      return " ";
    });
  }
  return found;
}
