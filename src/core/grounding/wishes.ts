import type { Clock } from "../../ports/clock.ts";
import { matchesOf } from "../../text/matches.ts";
import { sentencesOf } from "../../text/sentences.ts";
import { stemSet, stemsOf } from "../../text/words.ts";

const CONSTRAINT =
  /\b(?:always|never|must(?:n[’']?t)?|don[’']?t|do not|only|prefer(?:s|red|ably)?|avoid|at (?:most|least)|no more than|under no circumstances|from now on)\b|(?<!\p{L})(?:immer|niemals|nie|muss|müssen|darf|dürfen|nur|keinesfalls|bevorzug\p{L}*|lieber|auf keinen fall|spätestens|toujours|jamais|doit|doivent|uniquement|seulement|préfèr\p{L}*|il faut|interdit|surtout pas|ne\s+\p{L}+\s+(?:pas|que))(?!\p{L})|必须|總是|总是|永远|不要|不能|不得|只能|只要|优先|禁止|务必|一律|一定要|必ず|常に|絶対|ないで|禁止|のみ|なければなら|ないこと|てはいけ/iu;
const QUOTED = /[“„«「『]\s?([^“”„«»「」『』\n]{4,400}?)\s?[”“»」』]|(?<![\p{L}\p{N}])"([^"\n]{4,400})"/gu;
const QUESTION = /[?？]["'”’»」』)\]*_`]*$/u;
const REQUEST =
  /^(?:(?:ok(?:ay)?|now|then|so|and|also|next|first|great|good|thanks?|perfect|yes|no|alright|hm+)[,.!]?\s+)*(?:please|can you|could you|would you|will you|i want|i need|i'd like|let[’']?s|add|build|change|check|clean|compare|convert|create|delete|deploy|describe|do|draft|drop|explain|extract|find|fix|generate|give|go|implement|install|investigate|keep|list|look|make|merge|migrate|move|open|plan|prepare|propose|put|read|refactor|remove|rename|replace|restart|revert|review|rewrite|run|search|send|set|show|split|start|stop|suggest|summari[sz]e|switch|take|tell|test|translate|try|turn|update|upgrade|use|verify|write)\b|\bplease\b|(?<!\p{L})(?:bitte|kannst du|könntest du|können sie|könnten sie|mach|schreib|zeig|prüf\p{L}*|erstell\p{L}*|peux-tu|pouvez-vous|pourriez-vous|merci de|s[’']il (?:te|vous) plaît|fais|ajoute\p{L}*|vérifie\p{L}*|prépare\p{L}*|rédige\p{L}*)(?!\p{L})|请|帮我|麻烦|给我|能不能|ください|お願い|頼む|してほしい|教えて/iu;
/** A reply with this share of an ask's content words has answered it. */
const ANSWERED_SHARE = 0.5;

/** A user's constraints and quotations. */
export function rulesIn(text: string): string[] {
  return [...sentencesOf(text).filter(isRule), ...quotesIn(text).filter((quote) => stemsOf(quote).length > 1)];
}

export function quotesIn(text: string): string[] {
  return matchesOf(QUOTED, text).map(([, curly, straight]) => (curly ?? straight ?? "").trim());
}

/** Whether a user's sentence is a rule. */
export function isRule(sentence: string): boolean {
  return CONSTRAINT.test(sentence) && !QUESTION.test(sentence) && stemsOf(sentence).length > 1;
}

/** The questions and requests of a user's text. */
export function asksIn(text: string): string[] {
  return sentencesOf(text).filter((sentence) => QUESTION.test(sentence) || REQUEST.test(sentence));
}

/** The asks of the last user message: at least its first sentence. */
export function lastAsksOf(asks: readonly string[], texts: readonly string[]): readonly string[] {
  if (asks.length > 0) return asks;
  const [first = ""] = texts.filter((text) => text.trim() !== "");
  return sentencesOf(first).slice(0, 1);
}

/** The asks that the replies before the next user message do not take up. */
export async function unansweredOf(
  asks: readonly string[],
  replies: readonly string[],
  breathe: Clock["breathe"],
): Promise<readonly string[]> {
  if (asks.length === 0) return [];
  const said = await stemSet(replies, breathe);
  return asks.filter((ask) => {
    const stems = stemsOf(ask);
    const held = stems.filter((stem) => said.has(stem)).length;
    return replies.length === 0 || held < stems.length * ANSWERED_SHARE;
  });
}
