import type { SpecificKind } from "../../contract/compaction.ts";
import { CODE_NAME, canonicalPiece, plainCase, writtenPiece } from "../../text/canonical.ts";
import { denialsIn } from "./denials.ts";

/** What stands at a place of a text, as it is written, and around it. */
export interface Place {
  readonly before: string;
  readonly itself: string;
  readonly after: string;
}

type Matches = (place: Place) => boolean;

const DRIVE = /^[a-z]:/iu;
/** Dashes and stars before a word: of an option, a number, a pattern. */
const LEAD = /^[‑—*|-]/u;
const VERSION = /^v?\d+(?:\.\d+)+/iu;
const VERSION_SUFFIX = /^[-+][\p{L}\d]/u;
/** What follows a name with a digit and makes another of it, `gpt-4o-mini`; German hangs a noun on it, `gpt-4o-Modell`. */
const SUFFIX = /^[-+](?:[\p{Ll}\d]|\p{Lu}[\p{Lu}\d])/u;

/** How one name may be written: a version with and without its v, an address without its scheme, an issue as a number. */
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

/** Whether something is itself at a place: its neighbours may make another path, address or question of it, its case another name. */
export function meaningOf(kind: SpecificKind, text: string): Matches {
  const own = writtenPiece(text);
  switch (kind) {
    case "path": {
      const isRooted = text.startsWith("/");
      const isSame = sameName(own, () => !DRIVE.test(text));
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
      const isSame = sameName(own, (name) => LEAD.test(own) || CODE_NAME.test(own) || CODE_NAME.test(name));
      const suffix = VERSION.test(own) ? VERSION_SUFFIX : /\d/u.test(own) ? SUFFIX : undefined;
      return (place) => isSame(place) && suffix?.test(place.after) !== true;
    }
    case "number":
    case "command":
    case "rule":
      return sameText(text);
  }
}

/** Whether a name is written the same at a place, but for what may be left out of it. */
function sameName(own: string, isCased: (name: string) => boolean): Matches {
  const lead = LEAD.exec(own)?.[0] ?? "";
  const name = withoutPrefix(own.slice(lead.length));
  return ({ before, itself }) => {
    const other = withoutPrefix(itself);
    if (!before.endsWith(lead)) return false;
    return other === name || (other.toLowerCase() === name.toLowerCase() && !isCased(name) && !isCased(other));
  };
}

/** A name without what may be left out when it is written: the v of a version, the sign of a variable or an issue. */
function withoutPrefix(name: string): string {
  return name.replace(/^(?:v(?=\d)|[#$]\{?)/iu, "");
}

/** Whether a text is written the same at a place, but for the case of plain words. */
export function sameText(text: string): Matches {
  const own = writtenPiece(text);
  const lead = LEAD.exec(own)?.[0] ?? "";
  const rest = plainCase(own.slice(lead.length));
  return ({ before, itself }) =>
    plainCase(itself) === rest && (lead === "" ? !isSigned(before, itself) : before.endsWith(lead));
}

function isSigned(before: string, itself: string): boolean {
  return /^\d/u.test(itself) && /‑$/u.test(before);
}
