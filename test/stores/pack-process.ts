import { foldRow } from "@rkat/core/state/session-row";
import { AT_REST_MS } from "@rkat/node/log/at-rest";
import { openStore } from "@rkat/node/log/open";
import { FIRST_MS } from "@rkat/node/log/pack-at-rest";
import { nodeSegmentIo } from "@rkat/node/log/segments";

// Opens a store in which everything is at rest, says so with the first block that is packed, and waits to be killed.
const [folder = ""] = process.argv.slice(2);
const io: typeof nodeSegmentIo = {
  ...nodeSegmentIo,
  open: (path, flags, mode) => {
    if (flags === "wx") process.stdout.write("packing\n");
    return nodeSegmentIo.open(path, flags, mode);
  },
};
// The store packs some seconds after it was opened; here at once.
const { setTimeout: wait } = globalThis;
globalThis.setTimeout = Object.assign((work: () => void, ms?: number) => wait(work, ms === FIRST_MS ? 0 : ms), wait);
const now = (): number => Date.now() + AT_REST_MS;
openStore({ folder, foldRow, io, now, host: { pid: process.pid, isRunning: () => true } });
setInterval(() => {}, 1_000);
