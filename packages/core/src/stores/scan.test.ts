import { describe, expect, it } from "vitest";
import { byEffort } from "../../../../test/support/effort.ts";
import { fc } from "../../../../test/support/property.ts";
import { createFinder, type FoundText, TEXTS_MAX } from "./scan.ts";

const RUNS = byEffort({ quick: 10, usual: 40, full: 30_000 });

function find(texts: readonly string[], bytes: Uint8Array, pieces: readonly number[] = []): readonly FoundText[] {
  const finder = createFinder(texts);
  let at = 0;
  for (const size of pieces) {
    finder.read(bytes.subarray(at, at + size));
    at = Math.min(bytes.length, at + size);
  }
  finder.read(bytes.subarray(at));
  return finder.end();
}

/** Ways to write a text; `inside` stands before it where it is packed together with others. */
const FORMS: Readonly<Record<string, (text: string, inside: string) => Buffer>> = {
  "as it is": (text) => Buffer.from(text),
  "in capitals": (text) => Buffer.from(inCapitals(text)),
  "with other white space": (text) => Buffer.from(text.replace(/\s+/g, " \r\n\t\u00a0")),
  "in one line": (text) => Buffer.from(text.replace(/\s+/g, " ")),
  composed: (text) => Buffer.from(text.normalize("NFC")),
  decomposed: (text) => Buffer.from(text.normalize("NFD")),
  "in JSON": (text) => Buffer.from(JSON.stringify(text)),
  "in JSON, in ASCII": (text) => Buffer.from(inAscii(JSON.stringify(text))),
  "in JSON with escaped slashes": (text) => Buffer.from(JSON.stringify(text).replaceAll("/", "\\/")),
  "in JSON in JSON": (text, inside) => Buffer.from(JSON.stringify(JSON.stringify({ [inside]: text }))),
  "in JSON in JSON in JSON, in ASCII": (text) =>
    Buffer.from(JSON.stringify(JSON.stringify(inAscii(JSON.stringify([text]))))),
  "in UTF-16": (text) => Buffer.from(text, "utf16le"),
  "in UTF-16, high byte first": (text) => Buffer.from(text, "utf16le").swap16(),
  "percent-encoded": (text) => Buffer.from(encodeURIComponent(text)),
  "percent-encoded twice": (text) => Buffer.from(encodeURIComponent(encodeURIComponent(text))),
  "as a form's field": (text) => Buffer.from(new URLSearchParams({ q: text.replace(/\s+/g, " ") }).toString()),
  "in HTML": (text) => Buffer.from(inHtml(text)),
  "in base64": (text, inside) => Buffer.from(Buffer.from(`${inside}${text}`).toString("base64")),
  "in base64url": (text, inside) => Buffer.from(Buffer.from(`${inside}${text}.`).toString("base64url")),
  "in lines of base64": (text, inside) => Buffer.from(inLines(Buffer.from(`${inside}${text}`).toString("base64"))),
  "in lines of base64 in JSON": (text, inside) =>
    Buffer.from(JSON.stringify(inLines(Buffer.from(`${inside}${text}`).toString("base64")))),
  "in JSON in base64": (text, inside) => Buffer.from(btoa(inAscii(JSON.stringify([inside, text])))),
  "in hex": (text, inside) => Buffer.from(Buffer.from(`${inside}${text}`).toString("hex")),
  "in capital hex": (text) => Buffer.from(`a${Buffer.from(text).toString("hex").toUpperCase()}`),
};

function inCapitals(text: string): string {
  return Array.from(text, (letter) => {
    const capital = letter.toUpperCase();
    return [...capital].length === 1 ? capital : letter;
  }).join("");
}

const inAscii = (json: string): string =>
  json.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
const inHtml = (text: string): string =>
  text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll('"', "&quot;")
    .replace(/[^ -~]/gu, (letter) => `&#x${letter.codePointAt(0)?.toString(16)};`);
const inLines = (base64: string): string => base64.replace(/.{7}/g, "$&\r\n");

const LETTERS = [..."abcdefgHIJKLM nopqrstuvwxyz 0123 \"'\\/<>&%+;:_-\n\täÖéßñçøжДΣλ日本語한국🎉👩"];
const text = fc
  .array(fc.constantFrom(...LETTERS), { minLength: 2, maxLength: 60 })
  .map((letters) => `Qz${letters.join("")}zQ9`);
/** Nothing here can be taken for an escape that the text goes on with. */
const around = fc
  .string({ unit: fc.constantFrom(..." \n{}[]:,.abcdefg0é日"), maxLength: 80 })
  .map((some) => `${some} `);

describe("finding texts in bytes", () => {
  for (const [name, write] of Object.entries(FORMS)) {
    it(`[D9] finds any text ${name}, wherever it stands and however its bytes come in`, () => {
      const inside = fc.constantFrom("", "x", "xy", "xyz ", "né ");
      const pieces = fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 12 });
      fc.assert(
        fc.property(text, inside, fc.tuple(around, around), pieces, (one, within, [before, after], sizes) => {
          const bytes = Buffer.concat([Buffer.from(before), write(one, within), Buffer.from(` ${after}`)]);
          expect(find(["not there at all", one], bytes, sizes).map((found) => found.text)).toContain(1);
        }),
        { numRuns: RUNS },
      );
    });
  }

  it("[D9] finds a text however long, wherever the beginning by which it is known ends", () => {
    const half = fc.constantFrom("", "\ud83d", "\udc00");
    const words = fc.array(fc.constantFrom("a", "of", "heron", "Ålesund", "日本", "👩", "\n"), {
      minLength: 30,
      maxLength: 90,
    });
    fc.assert(
      fc.property(words, half, (some, broken) => {
        const one = `Qz${broken}x ${some.join(" ")}`;
        for (const write of [FORMS["as it is"], FORMS["in JSON"], FORMS["in JSON in JSON"], FORMS["in base64"]])
          expect(find([one], write?.(one, "xy") ?? Buffer.of())).not.toEqual([]);
      }),
      { numRuns: RUNS },
    );
  });

  it("[D9] finds no text that differs by one letter, in any form", () => {
    const form = fc.constantFrom(...Object.values(FORMS));
    fc.assert(
      fc.property(text, form, around, (one, write, before) => {
        for (const other of [one.replace("Qz", "Qx"), one.replace("zQ9", "zQ8"), one.replace("zQ9", "z Q9")]) {
          expect(find([one], Buffer.concat([Buffer.from(before), write(other, "xy")]))).toEqual([]);
        }
      }),
      { numRuns: RUNS * 4 },
    );
  });

  it("[D9] tells the forms apart, and says one for what needs none", () => {
    const onProgress = (bytes: Uint8Array) => find(["Jane Doe"], bytes).map(({ form }) => form);
    expect(onProgress(Buffer.from("JANE\ndoe"))).toEqual(["plain"]);
    expect(onProgress(Buffer.from("jane\\ndoe"))).toEqual(["escaped"]);
    expect(onProgress(Buffer.from("jane%20doe"))).toEqual(["percent-encoded"]);
    expect(onProgress(Buffer.from("Jane Doe", "utf16le"))).toEqual(["utf-16"]);
    expect(onProgress(Buffer.from(btoa("Jane Doe")))).toEqual(["base64"]);
    expect(onProgress(Buffer.from(Buffer.from("Jane Doe").toString("hex")))).toEqual(["hex"]);
  });

  it("[D9] finds letters and punctuation that stand as named references of HTML, in any case and encoded twice", () => {
    const text = "Zoë Ødegård-Müller, 12 °C · İstanbul, Łódź; Ελένη Чехов <zoe@example.org>";
    const html =
      "Zo&euml; &Oslash;deg&aring;rd-M&uuml;ller&comma; 12 &deg;C &middot; &Idot;stanbul, &Lstrok;&oacute;d&zacute;&semi; " +
      "&Epsilon;&lambda;&#941;&nu;&eta; &CHcy;&iecy;&khcy;&ocy;&vcy; &lt;zoe&commat;example&period;org&gt;";
    for (const written of [html, html.replaceAll("&", "&amp;")]) {
      expect(find([text], Buffer.from(written))).toEqual([{ text: 0, form: "escaped" }]);
    }
    expect(find([text], Buffer.from(html.replace("&euml;", "&eacute;")))).toEqual([]);
    expect(find(["R&eactue;sum&eacute; of &sdot;"], Buffer.from("R&eactue;sumé of &sdot;"))).toHaveLength(1);
  });

  it("[D9] finds a text that follows something like an escape", () => {
    for (const before of ["\\", "C:\\", "%", "%4", "&", "&am", "\\u", "\\u00", "100%", "a+", "\\\\\\"]) {
      for (const one of ["name of it", "temp\\report", "u00e9tat", "41bcd&lt;", "test 50%de"]) {
        expect({ before, one, found: find([one], Buffer.from(`${before}${one}`)).length > 0 }).toEqual({
          before,
          one,
          found: true,
        });
      }
    }
  });

  it("[D9] finds texts within each other, all of them, and forgets them with the place", () => {
    const finder = createFinder(["abcdef", "bcde", "cdefgh", "xbcd"]);
    finder.read(Buffer.from("..abcd"));
    finder.read(Buffer.from("efgh"));
    expect(finder.end().map((found) => found.text)).toEqual(expect.arrayContaining([0, 1, 2]));
    finder.read(Buffer.from("ijk"));
    expect(finder.end()).toEqual([]);
    // What ends with a place does not go on in the next.
    finder.read(Buffer.from("abc"));
    finder.end();
    finder.read(Buffer.from("def"));
    expect(finder.end()).toEqual([]);
  });

  it("[D9] leaves base64 of four letters out, which other words have by chance", () => {
    expect(find(["Jane"], Buffer.from(btoa("xJaney")))).toEqual([]);
    expect(find(["Janet"], Buffer.from(btoa("xJanety")))).toEqual([{ text: 0, form: "base64" }]);
    expect(find(["Jane"], Buffer.from(Buffer.from("Jane").toString("hex")))).toEqual([{ text: 0, form: "hex" }]);
  });

  it("[D9] finds a long text by its beginning", () => {
    const long = Array.from({ length: 5_000 }, (_, at) => `word ${at}`).join(" ");
    expect(find([long], Buffer.from(JSON.stringify({ a: long })))).toEqual([{ text: 0, form: "plain" }]);
  });

  it("[D9] refuses what is too short or too many, by its place", () => {
    for (const short of ["", "abc", "   ab   ", "日本", "\\\\\\\\\\", "\n\n\n\n\n"]) {
      expect(() => createFinder(["long enough", short])).toThrow(
        "texts[1] is too short to be told from chance; give 4 letters or more",
      );
    }
    const many = Array.from({ length: TEXTS_MAX + 1 }, (_, at) => `text number ${at}`);
    expect(() => createFinder(many)).toThrow(`${TEXTS_MAX + 1} texts are more than are looked for at once`);
    expect(createFinder(many.slice(1)).end()).toEqual([]);
  });

  it("[D9] reads any bytes without a fault", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 2_000 }), (bytes) => {
        expect(find(["never by chance", "nor this one"], bytes)).toEqual([]);
      }),
      { numRuns: RUNS },
    );
  });
});
