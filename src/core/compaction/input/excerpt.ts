import type { Message } from "../../../contract/message.ts";
import { namesOfCalls } from "./call-names.ts";
import { bytesOf, bytesUpTo, cutText, leftOut } from "./cut-text.ts";
import { transcriptText } from "./transcript-text.ts";

/** What stands between two parts of an excerpt. */
export const SEPARATOR = "\n\n";

const HEAD_SHARE = 1 / 3;
/** Of the room, what one message may take while others still ask: so head and tail show several messages each. */
const PIECE_SHARE = 1 / 9;
/** Less of a message than this says nothing; in a small room a few messages are better than shreds of many. */
const PIECE_BYTES_MIN = 200;

/**
 * The beginning and the end of a conversation as a transcript of about `bytesMax`. It is over only where not even the
 * note of what is left out fits.
 */
export function excerptOf(messages: readonly Message[], bytesMax: number): string {
  if (messages.length === 0) return "";
  const bytes = Math.max(0, bytesMax - bytesOf(leftOut(messages.length, "message")) - SEPARATOR.length);
  const names = namesOfCalls(messages);
  const read = (message: Message): Piece => pieceOf(transcriptText(message, names.get(message)), bytes);
  // Never more than the tail is sure of: the newest message has to be seen, however small the room.
  const pieceBytesMax = Math.floor(Math.min(bytes * (1 - HEAD_SHARE), Math.max(PIECE_BYTES_MIN, bytes * PIECE_SHARE)));

  const head = takePieces(messages, read, { bytes: bytes * HEAD_SHARE, pieceBytesMax });
  const rest = messages.slice(head.pieces.length).toReversed();
  const tail = takePieces(rest, read, { bytes: bytes - head.bytes, pieceBytesMax });

  const share = fairShare([...head.pieces, ...tail.pieces], bytes);
  const cut = ({ text }: Piece): string => cutText(text, share - SEPARATOR.length);
  const missing = rest.length - tail.pieces.length;
  const gap = missing === 0 ? [] : [leftOut(missing, "message")];
  const parts = [...head.pieces.map(cut), ...gap, ...tail.pieces.toReversed().map(cut)];
  return parts.filter((part) => part !== "").join(SEPARATOR);
}

interface Piece {
  readonly text: string;
  /** With its separator; counted only as far as the room goes. */
  readonly bytes: number;
}

function pieceOf(text: string, bytesMax: number): Piece {
  return { text, bytes: text === "" ? 0 : bytesUpTo(text, bytesMax) + SEPARATOR.length };
}

interface Room {
  readonly bytes: number;
  readonly pieceBytesMax: number;
}

/** Takes messages from the front for as long as they fit, a large one counted as what it may be cut to. */
function takePieces(messages: readonly Message[], read: (message: Message) => Piece, room: Room) {
  const pieces: Piece[] = [];
  let bytes = 0;
  if (room.pieceBytesMax <= SEPARATOR.length) return { pieces, bytes };
  for (const message of messages) {
    const piece = read(message);
    const cost = Math.min(piece.bytes, room.pieceBytesMax);
    if (bytes + cost > room.bytes) break;
    bytes += cost;
    pieces.push(piece);
  }
  return { pieces, bytes };
}

/** The most a piece may take so that all fit: the small stay whole, and what they leave goes to the large. */
function fairShare(pieces: readonly Piece[], bytes: number): number {
  const ascending = pieces.map((piece) => piece.bytes).sort((one, other) => one - other);
  let left = bytes;
  for (const [index, size] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - index));
    if (size > share) return share;
    left -= size;
  }
  return Number.POSITIVE_INFINITY;
}
