const AMPERSAND = 0x26;
const POINTS_END = 0x11_0000;
const ENTITIES: ReadonlyMap<string, number> = new Map([
  ["lt", 0x3c],
  ["gt", 0x3e],
  ["quot", 0x22],
  ["apos", 0x27],
  ["nbsp", 0xa0],
]);
const NUMBERED = /^#(?:x([0-9a-f]{1,6})|([0-9]{1,7}))$/i;

/** What a reference of HTML stands for, by what is between `&` and `;`; undefined for one that nobody cares for. */
export function pointOfEntity(name: string): number | undefined {
  if (name === "amp") return AMPERSAND;
  const [, hex, decimal = ""] = NUMBERED.exec(name) ?? [];
  const point = hex === undefined ? Number.parseInt(decimal, 10) : Number.parseInt(hex, 16);
  return point < POINTS_END ? point : ENTITIES.get(name);
}

/** Whether a name of such a reference may have it. */
export function isNamePart(point: number): boolean {
  return point === 0x23 || (point >= 0x30 && point <= 0x39) || ((point | 0x20) >= 0x61 && (point | 0x20) <= 0x7a);
}

export function isHex(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}
