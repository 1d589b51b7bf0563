/** One server-sent event. */
export interface SseFrame {
  readonly event: string;
  readonly data: unknown;
}

const FRAME_CHARS_MAX = 64 * 1024 * 1024;

/** The events of a response as they come. */
export async function* sseFrames(body: ReadableStream<Uint8Array>): AsyncGenerator<SseFrame> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    const frames = text.split(/\r?\n\r?\n/);
    text = frames.pop() ?? "";
    if (text.length > FRAME_CHARS_MAX) throw new Error(`an event holds more than ${FRAME_CHARS_MAX} characters`);
    for (const frame of frames) {
      const fields = fieldsOf(frame);
      // A comment keeps the connection alive and says nothing.
      if (fields.has("data"))
        yield { event: fields.get("event") ?? "message", data: JSON.parse(fields.get("data") ?? "") };
    }
  }
}

function fieldsOf(frame: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const line of frame.split(/\r?\n/)) {
    const [name = "", ...rest] = line.split(":");
    const value = rest.join(":").replace(/^ /, "");
    const before = fields.get(name);
    if (name !== "") fields.set(name, before === undefined ? value : `${before}\n${value}`);
  }
  return fields;
}
