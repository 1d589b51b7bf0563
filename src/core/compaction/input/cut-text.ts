/** The text if it fits, else its head and tail around a note of how much is missing; at most `bytesMax` of UTF-8. */
export function cutText(text: string, bytesMax: number): string {
  if (bytesUpTo(text, bytesMax) <= bytesMax) return text.toWellFormed();
  const room = bytesMax - bytesOf(noteOf(text.length));
  // Between two shreds the note would be most of what is read: a beginning says more.
  if (room < NOTED_BYTES_MIN) return headOf(text, bytesMax);
  const head = headOf(text, Math.floor(room / 2));
  const tail = tailOf(text, Math.floor(room / 2));
  // Joined, not added: a sum of slices would keep the whole text in memory for as long as the cut lives.
  return [head, noteOf(text.length - head.length - tail.length), tail].join("");
}

const NOTED_BYTES_MIN = 40;

function noteOf(characters: number): string {
  return `\n${leftOut(characters, "character")}\n`;
}

const NUMBER = new Intl.NumberFormat("en-US");

/** Says how much is missing where something was left out. */
export function leftOut(count: number, noun: string): string {
  return `[… ${NUMBER.format(count)} ${noun}${count === 1 ? "" : "s"} left out …]`;
}

/** As much of the beginning as fits, whole characters only. */
export function headOf(text: string, bytesMax: number): string {
  let bytes = 0;
  let end = 0;
  while (end < text.length) {
    const point = text.codePointAt(end) ?? 0;
    bytes += widthOf(point);
    if (bytes > bytesMax) break;
    end += unitsOf(point);
  }
  return text.slice(0, end).toWellFormed();
}

/** As much of the end as fits, whole characters only. */
export function tailOf(text: string, bytesMax: number): string {
  let bytes = 0;
  let start = text.length;
  while (start > 0) {
    const isPair = unitsOf(text.codePointAt(start - 2) ?? 0) === 2;
    const before = start - (isPair ? 2 : 1);
    bytes += widthOf(text.codePointAt(before) ?? 0);
    if (bytes > bytesMax) break;
    start = before;
  }
  return text.slice(start).toWellFormed();
}

/** The UTF-8 length of a short text. */
export function bytesOf(text: string): number {
  return bytesUpTo(text, Number.POSITIVE_INFINITY);
}

/** The UTF-8 length of a text; counting stops once it is over `bytesMax`, so a huge text costs no more than that. */
export function bytesUpTo(text: string, bytesMax: number): number {
  let bytes = 0;
  for (let at = 0; at < text.length && bytes <= bytesMax; ) {
    const point = text.codePointAt(at) ?? 0;
    bytes += widthOf(point);
    at += unitsOf(point);
  }
  return bytes;
}

/** In UTF-8; half a pair counts as the replacement character it is shown as. */
function widthOf(point: number): number {
  if (point < 0x80) return 1;
  if (point < 0x800) return 2;
  return point < 0x10000 ? 3 : 4;
}

function unitsOf(point: number): number {
  return point < 0x10000 ? 1 : 2;
}
