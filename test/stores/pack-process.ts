import { foldRow } from "@rkat/core/state/session-row";
import { AT_REST_MS } from "@rkat/node/log/at-rest";
import { openStore } from "@rkat/node/log/open";
import { nodeSegmentIo } from "@rkat/node/log/segments";

// Opens a store in which everything is at rest, says so with the first block that is packed, and waits to be killed.
const [folder = ""] = process.argv.slice(2);
const io: typeof nodeSegmentIo = {
  ...nodeSegmentIo,
  open: (path, flags, mode) => {
    if (flags === "w") process.stdout.write("packing\n");
    return nodeSegmentIo.open(path, flags, mode);
  },
};
const now = (): number => Date.now() + AT_REST_MS;
openStore({ folder, foldRow, io, now, host: { pid: process.pid, isRunning: () => true } });
setInterval(() => {}, 1_000);
