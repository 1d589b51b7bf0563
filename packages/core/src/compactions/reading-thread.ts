import { parentPort } from "node:worker_threads";
import { serveReading } from "./reading-worker.ts";

if (parentPort !== null) serveReading(parentPort);
