import { parentPort, workerData } from "node:worker_threads";
import { messageOf } from "@rkat/core/contract/error";
import { type ScanAnswer, scanHere } from "./scan-folder.ts";

const say = (answer: ScanAnswer): void => parentPort?.postMessage(answer);
// Only `scanFolder` starts this thread, with what is to be scanned.
scanHere(workerData, (done) => say({ done })).then(
  (scan) => say({ scan }),
  (thrown) => say({ fault: messageOf(thrown) }),
);
