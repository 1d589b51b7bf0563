import { deflateRawSync, inflateRawSync } from "node:zlib";

/** What packed bytes begin with: no text does, and they are found by it. */
const PACKED_SIGN = Buffer.of(0x02, 0xd7, 0x91);
/** A longer text is kept as it is, since unpacking it would keep others waiting. */
export const PACKED_BYTES_MAX = 256 * 1_024;

/**
 * What short texts of ours have in common, so that one of a hundred bytes packs as well as a file of many. What is packed
 * needs it to be read: a changed dictionary needs another sign.
 */
const DICTIONARY = Buffer.from(
  [
    " people because through before another should between without something different really important example question",
    " number please thanks would could there their about which after other first where these think great going still",
    " today want know need make time good work like just with this that have from they will what when your some then",
    " than been were more also only into over very here does each time the and for you are not but was can has had how",
    " out all any its it's don't I'm I'll that's you're Can you What is How do Thank you for the of the in the to the on the",
    " and the for the to be is a with the at the from the it was I have I think I would you can there is of a in a and I",
    "Error: error: failed null undefined true false import { } from const return function export interface readonly string",
    '"https://www.com/ INFO WARN ERROR src/ .ts .json .test.ts: node_modules/ package.json\\n\\n```\\n  - \\n    \\",\\"\\":\\"',
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=","media_type":"image/png"',
    '[[2,{"kind":"tool_results","message":{"role":"tool_results","results":[{"tool_use_id":"call_1_1","content":"',
    '{"type":"text","text":"","is_error":false}],"created_at":"2026-01-01T00:00:00.000Z"},"durations_ms":[',
    '[[2,{"kind":"assistant","message":{"role":"block_assistant","blocks":[{"block_type":"reasoning","data":{"text":"',
    '{"block_type":"text","data":{"text":"."}},{"block_type":"tool_use","data":{"id":"call_","name":"read_file","args":{"path":"',
    '"command":""query":"}}}],"stop_reason":"tool_use","created_at":"2026-11-19T04:36:40.607Z"},"usage":{"input_tokens":1,',
    '"output_tokens":5,"cache_read_tokens":0,"cache_creation_tokens":0}}]]http://x"forgotten"[forgotten]…',
    '[[1,{"kind":"turn_opened","message":{"role":"user","content":".","created_at":"2026-11-19T04:36:29.223Z"},"setup":{',
    '"is_unattended":true,"code_tools":["by":"}}],[1,{"kind":"model_called","turn_number":0,"model":"","context_sha256":"',
    '","tool_tokens":0}]][[1,{"kind":"assistant","message":{"role":"block_assistant","blocks":[{"block_type":"text","data":{"text":"',
    '."}}],"stop_reason":"end_turn","created_at":"2026-11-19T04:36:29.331Z"},"usage":{"input_tokens":100,"output_tokens":50}}],',
    '[2,{"kind":"turn_closed","end":{"status":"completed","extraction_required":false,"usage":{"input_tokens":100,',
    '"output_tokens":50},"text_seq":4,"final_call":{"stop_reason":"end_turn","usage":{"input_tokens":100,"output_tokens":50}}}}]]',
    ',0,"assistant","text","user","text","tool","tool_result","',
  ].join(""),
);

/** For a short text what packing takes in memory costs more than packing: with the dictionary it fits in 8 KiB. */
const SHORT_BYTES = 4_096;
const SHORT = { windowBits: 13, memLevel: 5 } as const;
const CHUNK_BYTES_MIN = 64;

/** A text in fewer bytes; the text itself where it is long, or would not be shorter. */
export function pack(text: Buffer): Buffer {
  if (text.length > PACKED_BYTES_MAX) return text;
  const chunkSize = Math.max(CHUNK_BYTES_MIN, text.length);
  const room = text.length <= SHORT_BYTES ? SHORT : {};
  const packed = Buffer.concat([PACKED_SIGN, deflateRawSync(text, { dictionary: DICTIONARY, chunkSize, ...room })]);
  return packed.length < text.length ? packed : text;
}

function isPacked(kept: Uint8Array): boolean {
  return PACKED_SIGN.every((byte, at) => kept[at] === byte);
}

/** The text that `pack` was given, whatever follows the packed bytes. */
export function unpack(kept: Buffer): Buffer {
  if (!isPacked(kept)) return kept;
  const options = { dictionary: DICTIONARY, maxOutputLength: PACKED_BYTES_MAX };
  return inflateRawSync(kept.subarray(PACKED_SIGN.length), options);
}

/** Every packed text that begins in the first `end` bytes, wherever it lies; bytes that only look like one are none. */
export function* unpackedIn(bytes: Buffer, end = bytes.length): Generator<Buffer> {
  for (let at = bytes.indexOf(PACKED_SIGN); at >= 0 && at < end; at = bytes.indexOf(PACKED_SIGN, at + 1)) {
    try {
      yield unpack(bytes.subarray(at, at + PACKED_BYTES_MAX));
    } catch (error) {
      if (!(error instanceof Error && "code" in error)) throw error;
    }
  }
}
