/** A unit as a factor of the smallest one of its dimension. Two factors: both 1000 and 1024 are in use. */
export interface Unit {
  readonly dimension: string;
  readonly factors: readonly number[];
}

const UNITS = new Map<string, Unit[]>();

function define(dimension: string, rows: readonly (readonly [names: string, ...factors: number[]])[]): void {
  for (const [names, ...factors] of rows) {
    for (const name of names.split(" ")) UNITS.set(name, [...(UNITS.get(name) ?? []), { dimension, factors }]);
  }
}

define("time", [
  ["ns nanoseconds", 1e-6],
  ["µs μs us microseconds", 1e-3],
  ["ms msec millisecond milliseconds millisekunden millisecondes 毫秒 ミリ秒", 1],
  ["s sec secs second seconds sek sekunde sekunden seconde secondes 秒 秒钟", 1e3],
  ["m min mins minute minutes minuten 分 分钟 分間", 6e4],
  ["h hr hrs hour hours std stunde stunden heure heures 小时 個小時 个小时 時間", 36e5],
  ["d day days tag tage tagen jour jours 天 日 日間", 864e5],
  ["w wk week weeks woche wochen semaine semaines 周 週間 个星期 星期", 6048e5],
]);
define("month", [
  ["month months monat monate monaten mois 个月 か月 ヶ月 ヵ月 カ月", 1],
  ["year years yr yrs jahr jahre jahren an ans année années 年間", 12],
]);
define("bytes", [
  ["b byte bytes octets", 1],
  ["kb kib ko", 1e3, 1024],
  ["mb mib mo", 1e6, 1024 ** 2],
  ["gb gib gi g", 1e9, 1024 ** 3],
  ["tb tib t", 1e12, 1024 ** 4],
]);
for (const [at, prefix] of ["k", "m", "g"].entries()) {
  // Bits per millisecond; "a line of 50 Mbit" means per second.
  define("bits/time", [[`${prefix}bps ${prefix}bit ${prefix}bits`, 1e3 ** at]]);
  define("bits", [[`${prefix}bit ${prefix}bits${at > 0 ? ` ${prefix.toUpperCase()}b` : ""}`, 1e3 ** (at + 1)]]);
}
define("share", [["% percent pct prozent pourcent パーセント", 1]]);
define("points", [
  ["bps", 1],
  ["pp 百分点", 100],
]);
define("usd", [["$ us$ usd dollar dollars 美元 ドル", 1]]);
define("eur", [["€ eur euro euros 欧元 ユーロ", 1]]);
define("gbp", [["£ gbp pounds", 1]]);
define("chf", [["chf franken francs", 1]]);
define("jpy", [["¥ jpy yen 円 日元", 1]]);
define("cny", [["¥ cny rmb 元 人民币 块", 1]]);
define("length", [
  ["mm", 1],
  ["cm", 10],
  ["m meter meters metre metres 米 メートル", 1e3],
  ["km 公里 キロ", 1e6],
]);
define("mass", [
  ["µg μg mcg", 1e-6],
  ["mg", 1e-3],
  ["g gramm grams gramme grammes 克 グラム", 1],
  ["kg kilo kilos 公斤 キロ", 1e3],
  ["t tonne tonnes tonnen tons 吨 トン", 1e6],
]);
define("volume", [
  ["ml", 1],
  ["l liter litre liters litres 升", 1e3],
]);
define("celsius", [["°c ℃ grad", 1]]);
define("fahrenheit", [["°f", 1]]);
define("cycles", [
  ["hz", 1],
  ["khz", 1e3],
  ["mhz", 1e6],
  ["ghz", 1e9],
]);
define("rate", [["rps qps req/s ops/s tps", 1]]);
define("length/time", [["kmh", 1 / 3.6]]);
define("turns/time", [["rpm", 1]]);
define("area", [["m² m2 sqm qm 平方米 平米", 1]]);
define("tsubo", [["坪", 1]]);
define("pixels", [["px", 1]]);
define("rem", [["rem", 1]]);
define("energy", [
  ["wh", 1],
  ["kwh", 1e3],
  ["mwh", 1e6],
]);
define("power", [
  ["w watt", 1],
  ["kw", 1e3],
]);
for (const [at, prefix] of ["m", "", "k", "M"].entries()) {
  for (const base of ["W", "A", "V"]) define(base === "W" ? "power" : base, [[prefix + base, 1e3 ** (at - 1)]]);
}
define("level", [["dB", 1]]);

/** Base units of bare numbers: `timeout_ms: 30000` is 30 s, `size: 1048576` is 1 MiB. */
export const BARE_BASES: Readonly<Record<string, readonly number[]>> = { time: [1, 1e3], bytes: [1] };

const MULTIPLIERS = new Map<string, number>();
for (const [names, factor] of [
  ["k thousand tsd tausend mille 千", 1e3],
  ["mn mio million millions millionen 百万", 1e6],
  ["bn mrd billion billions milliarde milliarden milliard milliards 十亿", 1e9],
  ["万 萬", 1e4],
  ["亿 億", 1e8],
] as const) {
  for (const name of names.split(" ")) MULTIPLIERS.set(name, factor);
}

/** The units of a name. `Mb` and `MB`, `mW` and `MW` differ by case only. */
export function unitsOf(name: string): readonly Unit[] {
  return UNITS.get(name) ?? UNITS.get(name.toLowerCase()) ?? [];
}

/** Dimensions that form rates. Money does not: "$3,740 a month" has too many forms. */
const RATED = new Set(["bits", "bytes", "length", "mass", "volume", "energy"]);

/** Rates such as `Mbit/s`, "liters per minute"; none if either unit is unknown. */
export function ratesOf(name: string, per: string): readonly Unit[] {
  const over = unitsOf(name).filter(({ dimension }) => RATED.has(dimension));
  const rates = unitsOf(per).flatMap(({ dimension: under, factors: [base = 1] }) =>
    over.map(({ dimension, factors }) => ({
      dimension: `${dimension}/${under}`,
      factors: factors.map((f) => f / base),
    })),
  );
  return rates.length > 0 ? rates : unitsOf(`${name}/${per}`);
}

/** The factor of a multiplier name; `M` and `B` only as capitals. */
export function multiplierOf(name: string): number | undefined {
  if (name === "M") return 1e6;
  if (name === "B") return 1e9;
  return MULTIPLIERS.get(name.toLowerCase());
}
