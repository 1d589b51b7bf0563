import { createChance } from "./recorded-tools.ts";
import type { Recording, ScriptedTurn } from "./recording.ts";

const MINUTE_MS = 60_000;

/** What a language says of an affair; `{…}` is filled in. */
interface Phrases {
  readonly openings: readonly string[];
  readonly details: readonly string[];
  readonly asks: readonly string[];
  readonly answers: readonly string[];
  readonly closings: readonly string[];
}

interface Talk extends Pick<Recording, "name" | "provider" | "model" | "systemPrompt" | "startedAt" | "probes"> {
  readonly seed: number;
  readonly turns: number;
  readonly phrases: Phrases;
  readonly names: readonly string[];
  readonly things: readonly string[];
  readonly places: readonly string[];
  /** Said once, in the second turn. */
  readonly rule: string;
  readonly pauseMinutesMax: number;
}

const DETAILS_MIN = 6;
const DETAILS_MAX = 12;

/** A conversation without tools. */
function talk({
  seed,
  turns: count,
  phrases,
  names,
  things,
  places,
  rule,
  pauseMinutesMax,
  ...facts
}: Talk): Recording {
  const chance = createChance(seed);
  const turns: ScriptedTurn[] = [];
  for (let index = 0; index < count; index += 1) {
    const values: Readonly<Record<string, string>> = {
      name: chance.pick(names),
      other: chance.pick(names),
      thing: chance.pick(things),
      place: chance.pick(places),
      number: `${String.fromCharCode(65 + (index % 26))}${chance.whole(100_000, 999_999)}`,
      amount: `${chance.whole(9, 1_900)},${chance.whole(10, 99)}`,
      day: String(chance.whole(1, 28)),
      count: String(chance.whole(2, 90)),
      hour: `${chance.whole(7, 19)}:${chance.whole(10, 59)}`,
    };
    const filled = (text: string): string => text.replace(/\{(\w+)\}/g, (_, key: string) => values[key] ?? key);
    const several = (list: readonly string[]): string =>
      Array.from({ length: chance.whole(DETAILS_MIN, DETAILS_MAX) }, () => filled(chance.pick(list))).join(" ");
    const prompt = [
      filled(chance.pick(phrases.openings)),
      several(phrases.details),
      index === 1 ? rule : "",
      filled(chance.pick(phrases.asks)),
    ]
      .filter((part) => part !== "")
      .join(" ");
    const say = [several(phrases.answers), filled(chance.pick(phrases.closings))].join("\n\n");
    turns.push({ pauseMs: chance.whole(1, pauseMinutesMax) * MINUTE_MS, prompt, steps: [() => ({ say })] });
  }
  return { ...facts, tools: [], turns };
}

export const support = (): Recording =>
  talk({
    name: "support",
    provider: "openai",
    model: "gpt-5.4",
    systemPrompt: "You write to customers of a mail-order shop for garden tools, politely and exactly.",
    startedAt: "2026-02-09T09:00:00Z",
    seed: 11,
    turns: 130,
    pauseMinutesMax: 9,
    rule: "One thing holds for all of them: never promise a refund before the goods are back in the warehouse at Leith.",
    names: [
      "Mrs Okafor",
      "Mr Lindqvist",
      "Ms Tran",
      "Mr Abernathy",
      "Mrs Petrov",
      "Dr Castellanos",
      "Ms Whitlock",
      "Mr Nakamura",
    ],
    things: [
      "hedge trimmer HT-55",
      "lawn mower LM-400",
      "hose reel HR-20",
      "greenhouse GH-8",
      "chain saw CS-16",
      "sprinkler set SP-3",
    ],
    places: ["Leith", "Carlisle", "Swansea", "Truro", "Norwich", "Galway"],
    probes: [{ query: "promise a refund before goods are back in the warehouse", expects: "never promise a refund" }],
    phrases: {
      openings: [
        "{name} writes about order {number}, a {thing}.",
        "New case: {name} of {place}, order {number}, {thing}.",
        "{name} is on the phone again, order {number}.",
      ],
      details: [
        "The parcel was to arrive on the {day}th and the driver noted {hour} at a neighbour's in {place}.",
        "{count} pounds of postage were charged twice, the sum on the invoice is {amount} pounds.",
        "The carton was open on one side and the manual is of another model.",
        "She has photographs of it and sent {count} of them to the old address.",
        "The battery shows {count} percent after a night on the charger.",
        "He bought the {thing} in {place} before and never had such trouble.",
        "{other} took the first call and wrote that a spare part would go out on the {day}th.",
        "The serial number on the plate ends with {number}.",
      ],
      asks: [
        "What do I answer?",
        "Please write a reply that {other} can sign.",
        "Is that within the guarantee, and what do we offer?",
      ],
      answers: [
        "Dear {name}, thank you for your patience with order {number}.",
        "We are sorry that the {thing} reached you in this state.",
        "A label for the way back to our warehouse is attached; the carrier collects it on the {day}th until {hour}.",
        "Once it is in, the amount of {amount} pounds goes back the way it came, usually within {count} hours.",
        "Should you prefer a new one, the stock at {place} has {count} of them.",
        "The guarantee covers the battery for {count} months, the blades only against breakage.",
        "Please keep the plate with number {number} readable, the workshop needs it.",
      ],
      closings: ["Kind regards, {other}, customer care", "With best wishes from {place}, {other}"],
    },
  });

export const german = (): Recording =>
  talk({
    name: "german",
    provider: "anthropic",
    model: "claude-sonnet-4-6",
    systemPrompt: "Du hilfst der Geschäftsstelle eines Sportvereins. Antworte auf Deutsch, knapp und genau.",
    startedAt: "2026-03-16T07:45:00Z",
    seed: 23,
    turns: 120,
    pauseMinutesMax: 14,
    rule: "Merke dir für alle Bescheide: Niemals die Mitgliedsnummer von Minderjährigen in eine Rundmail schreiben.",
    names: [
      "Frau Özdemir",
      "Herr Brandstätter",
      "Frau Kühnle",
      "Herr Wójcik",
      "Frau Großmann",
      "Herr Nguyen",
      "Frau Hartwig",
    ],
    things: [
      "Hallenmiete",
      "Jugendfreizeit",
      "Trainerlizenz",
      "Beitragsermäßigung",
      "Trikotbestellung",
      "Unfallmeldung",
    ],
    places: ["Esslingen", "Böblingen", "Göppingen", "Nürtingen", "Schwäbisch Gmünd"],
    probes: [{ query: "Mitgliedsnummer von Minderjährigen in Rundmail", expects: "Niemals die Mitgliedsnummer" }],
    phrases: {
      openings: [
        "{name} fragt nach der {thing}, Vorgang {number}.",
        "Neuer Vorgang {number}: {thing} für {name} aus {place}.",
        "Zur {thing} von {name} gibt es Neues.",
      ],
      details: [
        "Der Antrag lag am {day}. im Briefkasten und ist um {hour} Uhr eingescannt worden.",
        "Überwiesen wurden {amount} Euro statt der vereinbarten Summe.",
        "{other} hat am Telefon zugesagt, dass die Halle in {place} frei bleibt.",
        "Von den {count} angemeldeten Kindern fehlen noch die Einverständniserklärungen.",
        "Der Verband verlangt die Bescheinigung bis zum {day}. in doppelter Ausfertigung.",
        "Auf dem Formular steht die Nummer {number}, in der Liste aber eine andere.",
        "Die Abteilung rechnet mit {count} Teilnehmenden und einem Zuschuss von {amount} Euro.",
      ],
      asks: [
        "Was schreibe ich zurück?",
        "Bitte formuliere einen Bescheid, den {other} unterschreiben kann.",
        "Reicht das für den Verband, oder fehlt etwas?",
      ],
      answers: [
        "Sehr geehrte Damen und Herren, zum Vorgang {number} teilen wir Folgendes mit.",
        "Die {thing} ist bewilligt, sobald der Nachweis aus {place} vorliegt.",
        "Der Betrag von {amount} Euro wird zum {day}. des Monats verrechnet.",
        "Bitte reichen Sie die fehlenden {count} Erklärungen bis {hour} Uhr in der Geschäftsstelle ein.",
        "{other} steht für Rückfragen zur {thing} zur Verfügung.",
        "Der Verband erkennt die Bescheinigung mit der Nummer {number} an.",
        "Eine Ermäßigung ist nach der Satzung nur auf schriftlichen Antrag möglich.",
      ],
      closings: ["Mit sportlichen Grüßen, {other}", "Freundliche Grüße aus {place}, {other}"],
    },
  });

export const japanese = (): Recording =>
  talk({
    name: "japanese",
    provider: "gemini",
    model: "gemini-2.5-flash",
    systemPrompt: "あなたは旅館の予約係を手伝います。日本語で、正確に答えてください。",
    startedAt: "2026-04-02T00:30:00Z",
    seed: 31,
    turns: 120,
    pauseMinutesMax: 20,
    rule: "すべての予約に共通の決まりです。離れの部屋を十二歳未満のお子様連れに案内してはいけません。",
    names: ["佐藤様", "高橋様", "渡辺様", "山口様", "松本様", "井上様", "清水様"],
    things: ["松の間", "竹の間", "露天風呂付き離れ", "夕食の会席", "送迎の車", "宴会場"],
    places: ["箱根", "熱海", "伊東", "修善寺", "湯河原"],
    probes: [{ query: "離れの部屋 十二歳未満のお子様連れ", expects: "案内してはいけません" }],
    phrases: {
      openings: [
        "{name}から予約番号{number}についてのご連絡です。",
        "新しい予約、{name}、番号{number}、{thing}をご希望です。",
        "{name}の{thing}の件で変更がありました。",
      ],
      details: [
        "到着は{day}日の{hour}ごろ、{place}駅からの送迎をお願いしたいとのことです。",
        "料金は{amount}円で、前金はまだ入っていません。",
        "{other}が電話を受け、{count}名様に増えるかもしれないと書き残しました。",
        "お子様が{count}か月で、食物アレルギーがあるそうです。",
        "領収書の宛名は{number}の会社名でお願いしますと言われました。",
        "前回は{place}の別館にお泊まりで、{thing}がお気に召したそうです。",
        "荷物が{count}個、{day}日の午前に先に届きます。",
      ],
      asks: ["どうお返事すればよいですか。", "{other}が送れる文面を書いてください。", "この条件で空きはありますか。"],
      answers: [
        "{name}、このたびはご予約番号{number}をありがとうございます。",
        "{thing}は{day}日から確保いたしました。",
        "送迎は{place}駅を{hour}に出発いたします。",
        "お支払いは{amount}円を当日に承ります。",
        "{count}名様分の会席をご用意し、アレルギーの食材は除きます。",
        "お荷物は{other}がお部屋までお運びいたします。",
        "変更がございましたら{count}時間前までにお知らせください。",
      ],
      closings: ["{place}の宿、担当{other}", "お越しをお待ちしております。{other}"],
    },
  });
