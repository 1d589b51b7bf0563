// Works on a session until a compaction is prepared, or until one is in force, and tells its parent of it.
import { createRuntime } from "@rkat/core/create-runtime";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { createHeldModel } from "../support/held-summaries.ts";
import { openPostgresStore } from "../support/postgres-store.ts";
import { goOn, isCompacted, READY, saidMuch, waitForEvent } from "../support/prepared-sessions.ts";

/** A folder, or the URL of a database; the session to go on with, if there is one. */
const [place = "", known] = process.argv.slice(2);
const model = createHeldModel();
const store = place.startsWith("postgres://")
  ? await openPostgresStore({ url: place, realm: "prepared" })
  : await openEmbeddedStore(place);
const runtime = createRuntime({ model, env: {}, store, toolPreset: "none", compaction: READY });

async function prepare() {
  const { session } = await saidMuch(model, runtime);
  model.release();
  return { session, prepared: (await waitForEvent(session, "compaction_prepared")).compaction_id };
}

async function publish(id: string) {
  const session = runtime.session(id);
  await goOn(session, () => isCompacted(session));
  return { session };
}

const { session, ...found } = await (known === undefined ? prepare() : publish(known));
const compactions = (await session.compactions()).map(({ compactionId: compaction_id, prepared }) => ({
  compaction_id,
  prepared,
}));
const { usage } = await session.read();
process.stdout.write(JSON.stringify({ id: session.id, asked: model.asked(), compactions, usage, ...found }));
await runtime.close();
