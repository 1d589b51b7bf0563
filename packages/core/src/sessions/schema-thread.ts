import { parentPort } from "node:worker_threads";
import { createValidator } from "../turn/json-schema.ts";
import type { SchemaOrder } from "./schema-worker.ts";

parentPort?.on("message", ({ schema, value }: SchemaOrder) => {
  void createValidator(schema).then((validate) => parentPort?.postMessage(validate(value)));
});
parentPort?.postMessage("ready");
