/** Pieces that, said again and again, have made some reader of texts slow somewhere. */
const PIECES: readonly string[] = [
  " ",
  "\t",
  "\n",
  "\r\n",
  " \n",
  "\u00a0",
  "\u2028",
  "\u3000",
  "\u200b",
  "\u200d",
  "\ufeff",
  "\0",
  "a",
  "A",
  "Aa",
  "aA",
  "a ",
  "a.",
  "a. ",
  "A. ",
  ".",
  ". ",
  "…",
  "!",
  "?",
  "? ",
  ",",
  ", ",
  ";",
  ":",
  ": ",
  "1",
  "1,",
  "1.",
  "1 ",
  "1,1,1 ",
  "111,",
  "111.",
  "1:",
  "1-",
  "1/",
  "0",
  "1e",
  "12:3",
  "2026-",
  "1.1.",
  "$1",
  "1k ",
  "1 m ",
  "one ",
  "hundred ",
  "十",
  "1年",
  '"',
  '" ',
  '"a ',
  "'",
  "'a ",
  "“",
  "“a",
  "「a。",
  "(",
  "(a. ",
  "[",
  "{",
  '{"a":',
  "<",
  "<a>",
  "`",
  "``",
  "```",
  "```sh\n",
  "`a` ",
  "*",
  "**",
  "**a",
  "_",
  "__",
  "a_",
  "-",
  "- ",
  " - ",
  "—",
  "--a ",
  "-----BEGIN PRIVATE KEY-----\n",
  "-----BEGIN PRIVATE KEY-----\nMII\n-----END ",
  "/",
  "a/",
  "./",
  "\\",
  "\\n",
  "C:\\",
  "#",
  "# a\n",
  "|",
  "| a ",
  "|-",
  "@",
  "a@",
  "a@b.",
  "http://",
  "http://a",
  "www.",
  "://a:",
  "sk-",
  "Bearer ",
  "$ ",
  "$ a\n",
  "~",
  "%41",
  "=",
  "+",
  "&",
  "no ",
  "not ",
  "never ",
  "must ",
  "please ",
  "and ",
  "the user ",
  "the user asked ",
  "exit code ",
  "exit ",
  "npm run ",
  "ne a ",
  "user: ",
  "here is ",
  "note that ",
  "a-",
  "a1-",
  "é",
  "e\u0301",
  "\u0301",
  "漢",
  "漢。",
  "ア",
  "한",
  "ا",
  "א ",
  "ไ",
  "\ud83d",
  "\udc00",
  "👩‍👩‍👧‍👦",
  "🇩",
  "=\n",
  "QUJD",
  "deadbeef",
  "a,b\n",
  "1,2,3\n",
  "+a\n-b\n",
  "2026-01-05T10:30:00Z INFO a=1\n",
  "\u001b[31ma\u001b[0m",
  "\u001b[",
  "@@ -1 +1 @@\n",
];

/** What stands after the run: only there it turns out that nothing matches. */
const ENDS = ["", "x", "\0!"];

const MIXTURES = 24;

export interface HostileText {
  readonly name: string;
  readonly text: string;
}

/** Every hostile text, of about so many characters: runs of one piece, and mixtures of several made from a seed. */
export function hostileTexts(chars: number, seed = 1): readonly HostileText[] {
  const runs = PIECES.map((piece, at) => {
    const text = piece.repeat(Math.ceil(chars / piece.length)).slice(0, chars) + (ENDS[at % ENDS.length] ?? "");
    return { name: JSON.stringify(piece), text };
  });
  const mixtures = Array.from({ length: MIXTURES }, (_, at) => {
    return { name: `mixture ${seed + at}`, text: mixtureOf(chars, seed + at) };
  });
  return [...runs, ...mixtures];
}

const RUN_MAX = 400;

/** Short and long runs of pieces by chance, the same for the same seed. */
function mixtureOf(chars: number, seed: number): string {
  let state = seed * 2_654_435_761;
  const below = (max: number): number => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    return state % max;
  };
  const parts: string[] = [];
  for (let length = 0; length < chars; length += parts.at(-1)?.length ?? 1) {
    parts.push((PIECES[below(PIECES.length)] ?? " ").repeat(1 + below(below(3) === 0 ? RUN_MAX : 4)));
  }
  return parts.join("").slice(0, chars);
}
