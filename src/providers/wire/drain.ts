const READS_MAX = 100;
const WAIT_MS_MAX = 1_000;

/** Reads a finished answer to its end, so that its connection can serve the next call; nothing it meets matters. */
export async function drain(reader: ReadableStreamDefaultReader<unknown>): Promise<void> {
  const giveUp = (): void => void reader.cancel().catch(ignore);
  const patience = setTimeout(giveUp, WAIT_MS_MAX).unref();
  try {
    for (let reads = 0; reads < READS_MAX; reads += 1) {
      if ((await reader.read()).done) return;
    }
    giveUp();
  } catch {
    // The answer is complete: what breaks after it is the end of the stream.
  } finally {
    clearTimeout(patience);
  }
}

function ignore(): void {}
