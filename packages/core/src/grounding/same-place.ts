import type { SpecificKind } from "../contract/compaction.ts";
import { CODE_NAME, canonicalPiece, plainCase, writtenPiece } from "../text/canonical.ts";
import { denialsIn } from "./denials.ts";

/** The text at a position, and around it. */
export interface Place {
  readonly before: string;
  readonly itself: string;
  readonly after: string;
}

type Matches = (place: Place) => boolean;

const DRIVE = /^[a-z]:/iu;
/** Dashes and stars before a word: of an option, a number, a pattern. */
const PREFIX = /^[‑—*|-]/u;
const VERSION = /^v?\d+(?:\.\d+)+/iu;
const VERSION_SUFFIX = /^[-+][\p{L}\d]/u;
/** A suffix that makes another name, `gpt-4o-mini`; German appends a noun, `gpt-4o-Modell`. */
const SUFFIX = /^[-+](?:[\p{Ll}\d]|\p{Lu}[\p{Lu}\d])/u;

/** Spellings of a name: a version with and without v, an address without its scheme, an issue as a number. */
export function spellingsOf(text: string): string[] {
  const piece = canonicalPiece(text);
  const spellings = [piece];
  const version = /^v?(\d+\.\d.*)$/u.exec(piece)?.[1];
  if (version !== undefined) spellings.push(version, `v${version}`);
  const address = /^[a-z\d+]+:\/\/(?:www\.)?(.+)$/u.exec(piece)?.[1];
  if (address !== undefined) spellings.push(address);
  if (/^[#$]\{?\w/u.test(piece)) spellings.push(piece.replace(/^[#$]\{?/u, ""));
  return spellings;
}

/** Whether the text at a position is the same specific: neighbours or case may make it another. */
export function meaningOf(kind: SpecificKind, text: string): Matches {
  const own = writtenPiece(text);
  switch (kind) {
    case "path": {
      const isRooted = text.startsWith("/");
      const isSame = sameName(own, !DRIVE.test(text));
      return (place) =>
        isSame(place) &&
        !(isRooted && /[\p{L}\p{N}_.~]\/$/u.test(place.before)) &&
        !/^\.[\p{L}\p{N}]/u.test(place.after);
    }
    case "url":
      return ({ before, itself, after }) =>
        !/^\/?[\w?#&=%]/u.test(after) && (itself.length === own.length || !/:\/\/(?:www\.)?$/u.test(before));
    case "ask": {
      const isSame = sameText(text);
      return (place) => isSame(place) && denialsIn(/(?<!\p{L})\p{L}+ $/u.exec(place.before)?.[0] ?? "") === "";
    }
    case "identifier": {
      if (text.includes("@")) return ({ after }) => !/^\.[\p{L}\p{N}]/u.test(after);
      const isSame = sameName(own, PREFIX.test(own) || CODE_NAME.test(own));
      const suffix = VERSION.test(own) ? VERSION_SUFFIX : /\d/u.test(own) ? SUFFIX : undefined;
      return (place) => isSame(place) && suffix?.test(place.after) !== true;
    }
    case "number":
    case "command":
    case "rule":
      return sameText(text);
  }
}

/** Whether the name is equal, except for the v of a version and the sign of a variable or an issue. */
function sameName(own: string, isCased: boolean): Matches {
  const bare = (name: string): string => name.replace(/^(?:v(?=\d)|[#$]\{?)/iu, "");
  return sameAs(own, (name, other) => {
    const isEither = !isCased && !CODE_NAME.test(other);
    return bare(other) === bare(name) || (isEither && bare(other).toLowerCase() === bare(name).toLowerCase());
  });
}

/** Whether the text is equal, except for the case of plain words. */
export function sameText(text: string): Matches {
  return sameAs(writtenPiece(text), (own, other) => plainCase(other) === plainCase(own));
}

/** The same with dashes and stars before it, and without a sign before its number. */
function sameAs(text: string, isEqual: (own: string, other: string) => boolean): Matches {
  const lead = PREFIX.exec(text)?.[0] ?? "";
  const own = text.slice(lead.length);
  const isNumber = lead === "" && /^\d/u.test(own);
  return ({ before, itself }) => before.endsWith(lead) && !(isNumber && before.endsWith("‑")) && isEqual(own, itself);
}
