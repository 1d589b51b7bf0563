const POINTS_END = 0x11_0000;
/** Names of HTML references, as texts compare them: without case. Each run of names counts up from its first code point. */
const NAMED_FROM: readonly (readonly [first: number, names: string])[] = [
  [0x09, "tab newline"],
  [0x21, "excl quot num dollar percnt amp apos lpar rpar ast plus comma"],
  [0x2e, "period sol"],
  [0x3a, "colon semi lt equals gt quest commat"],
  [0x5b, "lsqb bsol rsqb hat lowbar grave"],
  [0x7b, "lcub verbar rcub"],
  [0xa0, "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3"],
  [0xb4, "acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest"],
  [0xdf, "szlig"],
  [0xe6, "aelig"],
  [0xf0, "eth"],
  [0xf7, "divide oslash"],
  [0xfe, "thorn"],
  [0xd7, "times"],
  [0x111, "dstrok"],
  [0x127, "hstrok"],
  [0x131, "imath"],
  [0x133, "ijlig"],
  [0x142, "lstrok"],
  [0x14b, "eng"],
  [0x153, "oelig"],
  [0x167, "tstrok"],
  [0x3b1, "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigmaf sigma tau"],
  [0x3c5, "upsilon phi chi psi omega"],
  [0x430, "acy bcy vcy gcy dcy iecy zhcy zcy icy jcy kcy lcy mcy ncy ocy pcy rcy scy tcy ucy fcy khcy tscy chcy shcy"],
  [0x449, "shchcy hardcy ycy softcy ecy yucy yacy"],
  [0x451, "iocy djcy gjcy jukcy dscy iukcy yicy jsercy ljcy njcy tshcy kjcy"],
  [0x45e, "ubrcy dzcy"],
  [0x2002, "ensp emsp"],
  [0x2009, "thinsp"],
  [0x2010, "dash"],
  [0x2013, "ndash mdash"],
  [0x2018, "lsquo rsquo sbquo"],
  [0x201c, "ldquo rdquo bdquo"],
  [0x2022, "bull"],
  [0x2026, "hellip"],
  [0x2039, "lsaquo rsaquo"],
  [0x20ac, "euro"],
  [0x2122, "trade"],
];
const ENTITIES: ReadonlyMap<string, number> = new Map([
  ...NAMED_FROM.flatMap(([first, names]) => names.split(" ").map((name, at) => [name, first + at] as const)),
  ["lbrack", 0x5b],
  ["rbrack", 0x5d],
  ["lbrace", 0x7b],
  ["rbrace", 0x7d],
  ["vert", 0x7c],
  ["inodot", 0x131],
  ["idot", 0x130],
  ["hyphen", 0x2010],
]);
/** An accented letter is named by its letter and its accent; the combining mark of each. */
const ACCENTS: Readonly<Record<string, string>> = {
  grave: "\u0300",
  acute: "\u0301",
  circ: "\u0302",
  tilde: "\u0303",
  macr: "\u0304",
  breve: "\u0306",
  uml: "\u0308",
  ring: "\u030a",
  dblac: "\u030b",
  caron: "\u030c",
  cedil: "\u0327",
  ogon: "\u0328",
};
const ACCENTED = /^(?:([a-z])(grave|acute|circ|tilde|macr|breve|uml|ring|dblac|caron|cedil|ogon)|([cegz])dot)$/;
const NUMBERED = /^#(?:x([0-9a-f]{1,6})|([0-9]{1,7}))$/i;

/**
 * What a reference of HTML stands for, by what is between `&` and `;`, in lower case: a number, a letter (Latin, Greek,
 * Cyrillic) or a punctuation mark; undefined for others, such as mathematical signs.
 */
export function pointOfEntity(name: string): number | undefined {
  const [, hex, decimal = ""] = NUMBERED.exec(name) ?? [];
  const point = hex === undefined ? Number.parseInt(decimal, 10) : Number.parseInt(hex, 16);
  return point < POINTS_END ? point : (ENTITIES.get(name) ?? accentedPoint(name));
}

function accentedPoint(name: string): number | undefined {
  const [, letter = "", accent = "", dotted] = ACCENTED.exec(name) ?? [];
  const composed = (dotted === undefined ? letter + (ACCENTS[accent] ?? "") : `${dotted}\u0307`).normalize("NFC");
  return composed.length === 1 ? composed.codePointAt(0) : undefined;
}

/** Whether a name of such a reference may have it. */
export function isNamePart(point: number): boolean {
  return point === 0x23 || (point >= 0x30 && point <= 0x39) || ((point | 0x20) >= 0x61 && (point | 0x20) <= 0x7a);
}

export function isHex(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}
