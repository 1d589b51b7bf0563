// Hears a session that another process writes to, and tells when each of its events came.
import { createRuntime, createScriptedModel, openEmbeddedStore } from "@rkat/node";
import { openPostgresStore } from "../test/support/postgres-store.ts";

const [place = "", sessionId = ""] = process.argv.slice(2);
const isDatabase = place.startsWith("postgres://");
const store = isDatabase ? await openPostgresStore({ url: place, realm: "delay" }) : await openEmbeddedStore(place);
const runtime = createRuntime({ store, model: createScriptedModel([]), env: {} });
process.on("disconnect", () => process.exit(0));
for await (const { seq } of runtime.subscribe(sessionId, { after: 0 })) {
  // The clock of the machine that only goes forward: it is the same in every process.
  if (seq !== 0) process.send?.({ seq, atNs: String(process.hrtime.bigint()) });
}
