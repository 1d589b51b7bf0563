import { createRandom } from "../test/crash/random.ts";
import { FACTS, FILLER, PREFERENCES } from "./recall-sample.ts";

/** Passages that read like what people say as far as an index can tell, and questions for them; the same in every run. */
export interface PassageText {
  /** Words by how common they are: those of the sample as often as they stand there, then made ones. */
  word(rank: number): string;
  /** A few sentences, one of which says something that no other passage does. */
  passage(index: number): string;
  /** Questions of the sample and, every second one, a question for what a passage below `size` alone says. */
  question(index: number, size: number): string;
}

/** A word is as common as its rank is low, by Zipf's law: the first makes up 6 % of a text, as in English. */
const WORDS = 200_000;
const SENTENCES_MAX = 4;
const SENTENCE_WORDS_MIN = 6;
const SENTENCE_WORDS_MORE = 9;

export function createPassageText(): PassageText {
  const common = wordsOfSample();
  const questions = [...PREFERENCES, ...FACTS].map(([, asked]) => asked);
  const word = (rank: number): string => common[rank] ?? madeWord(rank);
  const drawWord = (random: () => number): string => word(Math.floor(WORDS ** random()) - 1);
  const sentence = (random: () => number): string => {
    const count = SENTENCE_WORDS_MIN + Math.floor(random() * SENTENCE_WORDS_MORE);
    const words = Array.from({ length: count }, () => drawWord(random));
    return `${words.join(" ").replace(/^./, (first) => first.toUpperCase())}.`;
  };
  const factOf = (index: number) => {
    const random = createRandom(index + 1_000_003);
    const name = `${madeWord(Math.floor(random() * WORDS))}-${index}`;
    return { subject: drawWord(random), name, value: Math.floor(random() * 100_000) };
  };
  return {
    word,
    passage: (index) => {
      const random = createRandom(index + 1_000);
      const sentences = Array.from({ length: 1 + Math.floor(random() * SENTENCES_MAX) }, () => sentence(random));
      const { subject, name, value } = factOf(index);
      return `${sentences.join(" ")} ${name}: ${subject} ${value}.`;
    },
    question: (index, size) => {
      if (index % 2 === 0) return questions[(index / 2) % questions.length] ?? "";
      const { subject, name } = factOf(Math.floor(createRandom(index)() * size));
      return `What did we say about the ${subject} of ${name}?`;
    },
  };
}

/** Words people use, so many of them; another sentence for each number. */
export function sentenceOf(number: number, words: number): string {
  const random = createRandom(number + 7_000_003);
  const said = Array.from({ length: words }, () => COMMON[Math.floor(random() * COMMON.length)] ?? "");
  return `${said.join(" ")}.`;
}

/** Most common first. */
function wordsOfSample(): readonly string[] {
  const texts = [...[...PREFERENCES, ...FACTS].flat(), ...FILLER.flat()];
  const words = texts.flatMap((text) => text.toLowerCase().match(/[a-z]+(?:'[a-z]+)?/g) ?? []);
  const counts = Map.groupBy(words, (word) => word);
  return [...counts].sort(([, a], [, b]) => b.length - a.length).map(([word]) => word);
}

const COMMON = wordsOfSample();

const CONSONANTS = "bcdfgklmnprtvz";
const VOWELS = "aeiou";

/** Syllables that say the rank: each word is another. */
function madeWord(rank: number): string {
  let word = "";
  for (let rest = rank; rest > 0 || word.length < 4; ) {
    word += CONSONANTS.charAt(rest % CONSONANTS.length);
    rest = Math.floor(rest / CONSONANTS.length);
    word += VOWELS.charAt(rest % VOWELS.length);
    rest = Math.floor(rest / VOWELS.length);
  }
  return word;
}
