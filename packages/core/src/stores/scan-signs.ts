const POINTS_END = 0x11_0000;
/** Names of HTML references without case, as texts are compared; each name is the code point after the one before it. */
const ENTITIES = counted(`9 tab newline 33 excl quot num dollar percnt amp apos lpar rpar ast plus comma 46 period sol
  58 colon semi lt equals gt quest commat 91 lsqb bsol rsqb hat lowbar grave 123 lcub verbar rcub 91 lbrack 93 rbrack
  123 lbrace vert rbrace 160 nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn
  sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest 215 times 223 szlig 230 aelig
  240 eth 247 divide oslash 254 thorn 267 cdot 273 dstrok 279 edot 289 gdot 295 hstrok 304 idot imath 305 inodot
  307 ijlig 322 lstrok 331 eng 339 oelig 359 tstrok 380 zdot 945 alpha beta gamma delta epsilon zeta eta theta iota kappa
  lambda mu nu xi omicron pi rho sigmaf sigma tau upsilon phi chi psi omega 1072 acy bcy vcy gcy dcy iecy zhcy zcy icy jcy
  kcy lcy mcy ncy ocy pcy rcy scy tcy ucy fcy khcy tscy chcy shcy shchcy hardcy ycy softcy ecy yucy yacy 1105 iocy djcy
  gjcy jukcy dscy iukcy yicy jsercy ljcy njcy tshcy kjcy 1118 ubrcy dzcy 8194 ensp emsp 8201 thinsp 8208 hyphen 8208 dash
  8211 ndash mdash 8216 lsquo rsquo sbquo 8220 ldquo rdquo bdquo 8226 bull 8230 hellip 8249 lsaquo rsaquo 8364 euro
  8482 trade`);
/** An accented letter is named by its letter and its accent; the combining mark of each. */
const ACCENTS = counted("768 grave acute circ tilde macr 774 breve 776 uml 778 ring dblac caron 807 cedil ogon");
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
  const mark = ACCENTS.get(name.slice(1));
  if (mark === undefined) return undefined;
  const composed = `${name.charAt(0)}${String.fromCodePoint(mark)}`.normalize("NFC");
  return composed.length === 1 ? composed.codePointAt(0) : undefined;
}

/** Words by the numbers they stand for, which a number among them begins anew. */
function counted(words: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  let next = 0;
  for (const word of words.split(/\s+/)) {
    if (/^\d/.test(word)) next = Number(word);
    else found.set(word, next++);
  }
  return found;
}

/** Whether a name of such a reference may have it. */
export function isNamePart(point: number): boolean {
  return point === 0x23 || (point >= 0x30 && point <= 0x39) || ((point | 0x20) >= 0x61 && (point | 0x20) <= 0x7a);
}

export function isHex(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}
