import { readFileSync } from "node:fs";
import { join } from "node:path";

const LANGUAGES = ["en", "de", "fr", "zh", "ja"] as const;
type Language = (typeof LANGUAGES)[number];

/** A sentence, one that differs from it in one token, and texts that hold the sentence as summaries write it. */
export interface GeneratedTwin {
  readonly language: Language;
  readonly kind: string;
  /** What stands in the sentence where its twin has something else. */
  readonly own: string;
  readonly sentence: string;
  readonly twin: string;
  readonly kept: readonly string[];
}

/** The twins of the files of a set: the sentences, each with what differs put in its place (§). */
export function generateTwins(set: "tuned" | "held-out"): readonly GeneratedTwin[] {
  return LANGUAGES.flatMap((language) => {
    const name = set === "tuned" ? `${language}.txt` : `${language}-held-out.txt`;
    const blocks = readFileSync(join(import.meta.dirname, "twins", name), "utf8")
      .trim()
      .split("\n\n");
    return blocks.flatMap((block) => twinsOf(block.split("\n"), language));
  });
}

function twinsOf([first = "", ...rest]: readonly string[], language: Language): readonly GeneratedTwin[] {
  const colon = first.indexOf(": ");
  const [kind, template] = [first.slice(0, colon), first.slice(colon + 2)];
  const ways = rest.flatMap((line) => (line.startsWith("  or: ") ? [line.slice("  or: ".length)] : []));
  return rest.flatMap((line) => {
    if (!line.startsWith("  § ")) return [];
    const [own = "", other = ""] = line.slice("  § ".length).split(" ≠ ");
    const kept = [...keptForms(template, own, FRAMES[language]), ...ways.map((way) => way.replace("§", own))];
    return [{ language, kind, own, sentence: template.replace("§", own), twin: template.replace("§", other), kept }];
  });
}

interface Frame {
  readonly before: string;
  readonly after: string;
  readonly rule: string;
  readonly question: string;
  said(sentence: string): string;
}

const FRAMES: Readonly<Record<Language, Frame>> = {
  en: {
    before: "We spoke of the weather. ",
    after: " Then we went on.",
    rule: "Rule",
    question: "Open question",
    said: (sentence) => `The user said: “${sentence}”`,
  },
  de: {
    before: "Wir sprachen über das Wetter. ",
    after: " Dann ging es weiter.",
    rule: "Regel",
    question: "Offene Frage",
    said: (sentence) => `Der Nutzer sagte: „${sentence}“`,
  },
  fr: {
    before: "On a parlé du temps. ",
    after: " Puis on a continué.",
    rule: "Règle",
    question: "Question ouverte",
    said: (sentence) => `L'utilisateur a dit : « ${sentence} »`,
  },
  zh: {
    before: "先聊了天气。",
    after: "然后继续工作。",
    rule: "规则",
    question: "待解决的问题",
    said: (sentence) => `用户说：「${sentence}」`,
  },
  ja: {
    before: "天気の話をした。",
    after: "それから作業を続けた。",
    rule: "ルール",
    question: "未解決の質問",
    said: (sentence) => `利用者の言葉：『${sentence}』`,
  },
};

/** The sentence word for word, as lists, Markdown and quotations have it. */
function keptForms(template: string, own: string, frame: Frame): readonly string[] {
  const sentence = template.replace("§", own);
  const label = /[?？]$/u.test(sentence) ? frame.question : frame.rule;
  const isMarked = /[“”„«»「」『』"`]/u.test(own);
  return [
    `${frame.before}${sentence}${frame.after}`,
    `## Notes\n\n- ${sentence}\n- ...`,
    `3. ${sentence}`,
    `**${sentence}**`,
    `- **${label}:** ${sentence}`,
    `- [ ] ${sentence}`,
    template.replace("§", isMarked || own.includes(" ") ? `**${own}**` : `\`${own}\``),
    // As a bullet, where a sentence begins small and has no full stop.
    `- ${template.charAt(0).toLowerCase()}${template.slice(1)}`.replace("§", own).replace(/[.。]$/u, ""),
    // Quotations within quotations are written in many ways, and summaries avoid them.
    ...(isMarked ? [] : [frame.said(sentence)]),
  ];
}
