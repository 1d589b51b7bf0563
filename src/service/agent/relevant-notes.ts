import { queryTerms, termsOf } from "../../text/terms.ts";

export interface Note {
  readonly title?: string | undefined;
  readonly content: string;
}

const NOTES_MAX = 5;
/** Of the memories shown, those that say what is going on now. */
const MEMORIES_LOOKED_AT = 8;

/** Words like "of" weigh less. */
const WEIGHT_MIN = 0.5;

/** The notes that speak of what the newest memories speak of, best first, each as a text. */
export function relevantNotes(notes: readonly Note[], memories: readonly string[]): readonly string[] {
  if (notes.length === 0) return [];
  const weights = queryTerms(memories.slice(-MEMORIES_LOOKED_AT).join("\n"));
  const terms = notes.map(({ title = "", content }) => termsOf(`${title}\n${content}`));
  const holders = (term: string): number => terms.filter((own) => own.has(term)).length;
  return notes
    .map((note, at) => {
      const shared = [...(terms[at]?.keys() ?? [])].filter((term) => (weights.get(term) ?? 0) >= WEIGHT_MIN);
      // A word that every note holds says nothing about any of them.
      return { note, score: shared.reduce((sum, term) => sum + Math.log(1 + notes.length / holders(term)), 0) };
    })
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, NOTES_MAX)
    .map(({ note }) => (note.title === undefined ? note.content : `${note.title}: ${note.content}`));
}
