import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { defaultConfig } from "@rkat/core/config/settings";
import { type OpenOptions, openRuntime } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { createTalkingModel, embedder, lookUp, OFTEN } from "./forget/planted-secrets.ts";
import { useCommandLine } from "./support/command-line.ts";
import { keptAnswers } from "./support/kept-answers.ts";
import { databaseFor, withPostgres } from "./support/postgres.ts";
import { connect } from "./support/postgres-server.ts";

type Answers = Readonly<Record<string, unknown>>;

const fixtures = join(import.meta.dirname, "fixtures/0.1.0");
const unpacked = (name: string): Buffer => gunzipSync(readFileSync(join(fixtures, `${name}.gz`)));
const before = JSON.parse(unpacked("answers.json").toString()) as Readonly<Record<string, Answers>>;
const root = mkdtempSync(join(tmpdir(), "rkat-before-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const env = { RKAT_SEAL: "5b".repeat(32) };
const base: OpenOptions = {
  model: createTalkingModel(),
  compaction: OFTEN,
  memory: { embedder },
  tools: [lookUp],
  toolPreset: "none",
  env,
};

async function answersOf(options: OpenOptions): Promise<Answers> {
  const runtime = await openRuntime({ ...base, ...options });
  try {
    return await keptAnswers(runtime);
  } finally {
    await runtime.close();
  }
}

/** The answers about one session. */
function about(sessionId: string, answers: Answers | undefined): Answers {
  return Object.fromEntries(Object.entries(answers ?? {}).filter(([asked]) => asked.includes(sessionId)));
}

function unpackTar(name: string): string {
  const folder = mkdtempSync(join(root, "unpacked-"));
  execFileSync("tar", ["-C", folder, "-xzf", join(fixtures, `${name}.tar.gz`)]);
  return folder;
}

describe("what 0.1.0 has written", () => {
  const line = useCommandLine();

  it("[F12] a state folder answers as it did", async () => {
    const stateFolder = join(unpackTar("state"), "state");
    expect(await answersOf({ stateFolder })).toMatchObject(before.state ?? {});
  });

  it("[F12] [K2] an encrypted state folder answers as it did", async () => {
    const stateFolder = join(unpackTar("state-encrypted"), "state-encrypted");
    const config = { ...defaultConfig(), encryption: { key_env: "RKAT_SEAL" } };
    expect(await answersOf({ stateFolder, config })).toMatchObject(before["state-encrypted"] ?? {});
  });

  it("[F12] [K2] an exported session is imported and answers as it did", async () => {
    const file = join(root, "session.jsonl");
    writeFileSync(file, unpacked("session.jsonl"));
    const { session_id } = JSON.parse(readFileSync(file, "utf8").split("\n", 1)[0] ?? "");
    const place = ["-r", "state", "--state-root", join(root, "imported")];
    expect(await line.run(["session", "import", file, ...place])).toMatchObject({ code: 0 });
    const answers = about(session_id, await answersOf({ stateFolder: join(root, "imported", "state") }));
    expect(answers).toMatchObject(about(session_id, before.state));
    expect(Object.keys(answers).length).toBeGreaterThan(5);
  });

  it("[F12] [K2] a session in an exported archive is imported and answers as it did", async () => {
    const folder = join(unpackTar("memory"), "sessions");
    const [name = ""] = readdirSync(folder).filter((file) => file.endsWith(".jsonl"));
    const place = ["-r", "state", "--state-root", join(root, "from-archive")];
    expect(await line.run(["session", "import", join(folder, name), ...place])).toMatchObject({ code: 0 });
    const answers = about(name.slice(0, 36), await answersOf({ stateFolder: join(root, "from-archive", "state") }));
    expect(answers).toMatchObject(about(name.slice(0, 36), before.state));
    expect(Object.keys(answers).length).toBeGreaterThan(5);
  });

  it("[F12] [K2] a back-up is whole, is restored, and answers as it did", async () => {
    const file = join(root, "backup.tar");
    writeFileSync(file, unpacked("backup.tar"));
    expect(await line.run(["backup", "verify", file])).toMatchObject({ code: 0 });
    const place = ["-r", "state", "--state-root", join(root, "restored")];
    expect(await line.run(["restore", file, ...place])).toMatchObject({ code: 0 });
    expect(await answersOf({ stateFolder: join(root, "restored", "state") })).toMatchObject(before.state ?? {});
  });
});

withPostgres("what 0.1.0 has written", () => {
  it("[F12] a database answers as it did", async () => {
    const store = await databaseFor("before");
    const client = await connect(store);
    await client.query(unpacked("database.sql").toString());
    await client.end();
    expect(await answersOf({ store })).toMatchObject(before.database ?? {});
  });
});
