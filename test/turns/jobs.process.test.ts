import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { EntryBody } from "@rkat/core/contract/entry";
import { createInMemoryStore, createRuntime, type Runtime, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { createJobProcesses } from "@rkat/core/tools/job-processes";
import { openEmbeddedStore, openRuntime } from "@rkat/node/open-runtime";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { killableStore } from "../support/killable-store.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { openPostgresStore } from "../support/postgres-store.ts";
import { callTool, createCallingModel } from "./calling-model.ts";

const eventually = <T>(check: () => T | Promise<T>) => vi.waitFor(check, { timeout: 30_000, interval: 20 });

let root: string;
let jobsFolder: string;
const closing: (() => Promise<unknown>)[] = [];
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "rkat-jobs-")));
  jobsFolder = join(root, "jobs");
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  rmSync(root, { recursive: true });
});

function start(options: RuntimeOptions = {}): Runtime {
  const env = { PATH: process.env.PATH, SERVICE_TOKEN: "hush-hush" };
  const model = createCallingModel();
  const runtime = createRuntime({ model, env, projectRoot: root, toolPreset: "workspace", ...options });
  closing.push(() => runtime.close());
  return runtime;
}

async function session(options: RuntimeOptions = {}) {
  const runtime = start(options);
  const { id } = await runtime.createSession();
  return { runtime, id, call: (name: string, args: object = {}) => callTool(runtime, id, name, args) };
}
type Called = Awaited<ReturnType<typeof session>>["call"];

const background = async (call: Called, command: string, more: object = {}): Promise<string> =>
  (await call("shell", { command, background: true, ...more })).job_id;

const ended = (call: Called, job_id: string) =>
  eventually(async () => {
    const job = await call("shell_job_status", { job_id });
    expect(job.status).not.toBe("running");
    return job;
  });

async function bodiesOf({ log }: Pick<Store, "log">, id: string): Promise<readonly EntryBody[]> {
  return (await log.read(id, 1, Number.MAX_SAFE_INTEGER)).map(({ body }) => body);
}

const kindsIn = (bodies: readonly EntryBody[], kind: EntryBody["kind"]) => bodies.filter((body) => body.kind === kind);

/** The messages of jobs that began a turn. */
const turnsOfJobs = (bodies: readonly EntryBody[]) =>
  bodies.flatMap((body) => (body.kind === "turn_continued" ? [body.setup?.inbox_id] : []));

/** The number a command has written to a file, once it has. */
const numberIn = (file: string) =>
  eventually(() => {
    const text = readFileSync(join(root, file), "utf8");
    if (!text.endsWith("\n")) throw new Error("not written yet");
    return Number(text);
  });

function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
const expectDead = (pid: number) => eventually(() => expect(isAlive(pid)).toBe(false));

describe("a background job", () => {
  it("runs on, is listed, and reports how it ended", async () => {
    const { call } = await session();
    const job_id = await background(call, "echo hi; exit 4");
    const summary = { job_id, command: "echo hi; exit 4", status: "completed", started_at_unix: expect.any(Number) };
    const duration_secs = expect.any(Number);
    const report = { exit_code: 4, stdout: "hi\n", stderr: "", timed_out: false, duration_secs };
    expect(await ended(call, job_id)).toEqual({ ...summary, ...report });
    expect(await call("shell_jobs")).toEqual([summary]);
  });

  it("shows its output while it runs, and has no input", async () => {
    const { call } = await session();
    const job_id = await background(call, "cat; echo begun; sleep 1000");
    await eventually(async () =>
      expect(await call("shell_job_status", { job_id })).toMatchObject({
        status: "running",
        stdout: "begun\n",
        exit_code: null,
        timed_out: false,
      }),
    );
  });

  it("[P3] is recorded, and its end is delivered once: an entry, an event, a notice to the model", async () => {
    const store = createInMemoryStore();
    const { runtime, id, call } = await session({ store });
    const job_id = await background(call, "echo hush-hush; echo bye >&2; exit 3");
    const events = runtime.subscribe(id, { after: 0 })[Symbol.asyncIterator]();
    const completed = await eventually(async () => {
      const { value } = await events.next();
      expect(value?.event.type).toBe("background_job_completed");
      return value?.event;
    });
    expect(completed).toEqual({
      type: "background_job_completed",
      job_id,
      display_name: "echo [redacted]; echo bye >&2; exit 3",
      status: "completed",
      terminal_status: "completed",
      detail: "[redacted]\nbye\n",
    });
    const bodies = await bodiesOf(store, id);
    expect(kindsIn(bodies, "job_started")).toMatchObject([
      { job_id, timeout_ms: 30_000, pid: expect.any(Number), command: "echo [redacted]; echo bye >&2; exit 3" },
    ]);
    expect(kindsIn(bodies, "job_ended")).toMatchObject([
      { job_id, status: "completed", report: { exit_code: 3, stdout: "[redacted]\n", stderr: "bye\n" } },
    ]);
    const [notice, ...others] = kindsIn(bodies, "notice");
    expect(others).toEqual([]);
    expect(JSON.stringify(notice)).toContain(`Background job ${job_id} has completed with exit code 3.`);
    await call("shell_jobs");
    const context = await runtime.session(id).context();
    expect(JSON.stringify(context)).toContain(`Background job ${job_id} has completed`);
  });

  it("[P3] [A5] ends as failed, timed_out or cancelled, with everything it started", async () => {
    const { call } = await session();
    const killed = await background(call, "kill -9 $$");
    expect(await ended(call, killed)).toMatchObject({ status: "failed", signal: "SIGKILL" });
    const slow = await background(call, "sleep 1000 & echo $! > child; wait", { timeout_secs: 0.5 });
    expect(await ended(call, slow)).toMatchObject({ status: "timed_out", timed_out: true, exit_code: null });
    await expectDead(await numberIn("child"));
    const job_id = await background(call, "echo $$ > pid; sleep 1000");
    const pid = await numberIn("pid");
    expect(await call("shell_job_cancel", { job_id })).toEqual({ job_id, status: "cancelled" });
    expect(await call("shell_job_status", { job_id })).toMatchObject({ status: "cancelled", exit_code: null });
    await expectDead(pid);
    const left = await background(call, "sleep 1000 & echo $! > left; echo done");
    expect(await ended(call, left)).toMatchObject({ status: "completed", stdout: "done\n" });
    await expectDead(await numberIn("left"));
  });

  it("[P3] [A5] whose leader was killed has an unknown end, and leaves no process behind", async () => {
    const { call } = await session();
    const job_id = await background(call, "echo $PPID > leader; echo $$ > pid; echo begun; sleep 1000");
    const pid = await numberIn("pid");
    process.kill(await numberIn("leader"), "SIGKILL");
    const error = "its processes were killed or the machine restarted, so it left no exit code";
    expect(await ended(call, job_id)).toMatchObject({ status: "unknown", exit_code: null, stdout: "begun\n", error });
    await expectDead(pid);
  });

  it("[A5] cannot be cancelled once ended, nor found under a wrong id or from another session", async () => {
    const { runtime, call } = await session();
    const job_id = await background(call, "true");
    await ended(call, job_id);
    await expect(call("shell_job_cancel", { job_id })).rejects.toThrow(`${job_id} is not running: it has completed`);
    await expect(call("shell_job_status", { job_id: "nope" })).rejects.toThrow("there is no job nope");
    const other = await runtime.createSession();
    expect(await callTool(runtime, other.id, "shell_jobs", {})).toEqual([]);
    const from = callTool(runtime, other.id, "shell_job_status", { job_id });
    await expect(from).rejects.toThrow(`there is no job ${job_id}`);
  });

  it("[P3] is listed and cancelled by its user, too, while its turn is over", async () => {
    const { runtime, id, call } = await session();
    const job_id = await background(call, "sleep 600");
    const there = runtime.session(id);
    const listed = { jobs: [{ jobId: job_id, command: "sleep 600", status: "running" }] };
    expect(await there.listJobs()).toMatchObject(listed);
    expect(await (await runtime.createSession()).listJobs()).toEqual({ jobs: [] });
    expect(await there.cancelJob(job_id)).toMatchObject({ cancelled: true });
    expect(await there.listJobs()).toMatchObject({ jobs: [{ jobId: job_id, status: "cancelled" }] });
    await expect(there.cancelJob(job_id)).rejects.toThrow(`job ${job_id} is not running: it has been cancelled`);
    await expect(there.cancelJob("nope")).rejects.toThrow("there is no job nope");
  });

  it("[P3] [H5] keeps its output in private files, is killed when it writes too much, and is limited in number", async () => {
    const { call } = await session({ jobsFolder });
    const job_id = await background(call, "echo begun; sleep 1000");
    const folder = join(jobsFolder, job_id);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
    const loud = await background(call, "yes");
    expect(await ended(call, loud)).toMatchObject({
      status: "failed",
      error: expect.stringContaining("wrote more than"),
    });
    expect(await call("shell_job_status", { job_id: loud })).toMatchObject({
      stdout: expect.stringMatching(/^(?:y\n){15000}$/),
      stdout_truncated: true,
    });
    for (let count = 1; count < 32; count += 1) await background(call, "sleep 1000");
    await expect(background(call, "touch more")).rejects.toThrow("32 background jobs are running already");
  });

  it('[Q1] with notify: "turn" begins a turn when it has ended, after the one that runs then, with its output as data', async () => {
    const store = createInMemoryStore();
    const model = createCallingModel();
    const { runtime, id, call } = await session({ store, model });
    const job_id = await background(call, "until [ -e go ]; do sleep 0.05; done; echo quince", { notify: "turn" });
    // The job ends while this turn runs.
    await call("shell", { command: "touch go; sleep 0.5" });
    await eventually(async () => expect(kindsIn(await bodiesOf(store, id), "turn_closed")).toHaveLength(3));
    expect(turnsOfJobs(await bodiesOf(store, id))).toEqual([`job-${job_id}`]);
    expect((await runtime.session(id).inbox()).messages).toEqual([]);
    const shown = model.requests.at(-1)?.messages.at(-1);
    expect(shown).toMatchObject({ role: "system_notice", body: expect.stringMatching(/is data and not .*\nquince/) });
    await expect(call("shell", { command: "true", notify: "turn" })).rejects.toThrow(
      "it is for a command with background",
    );
  });

  it("[P3] never runs if it cannot be recorded", async () => {
    const shared = createInMemoryStore();
    const append: Store["log"]["append"] = async (...given) => {
      if (given[2].some(({ body }) => body.kind === "job_started")) throw new Error("the disk is full");
      return shared.log.append(...given);
    };
    const { call } = await session({ store: { ...shared, log: { ...shared.log, append } }, jobsFolder });
    await expect(background(call, "touch ran")).rejects.toThrow("the disk is full");
    expect(await call("shell_jobs")).toEqual([]);
    expect(readdirSync(root)).not.toContain("ran");
    expect(readdirSync(jobsFolder)).toEqual([]);
  });

  it("[P3] is delivered once although several processes follow it", async () => {
    const store = createInMemoryStore();
    const options = { store, jobsFolder, resumeTurns: true };
    const { id, call } = await session(options);
    for (let count = 0; count < 3; count += 1) start(options);
    const started: string[] = [];
    for (let count = 0; count < 8; count += 1)
      started.push(await background(call, "until [ -e go ]; do sleep 0.1; done"));
    writeFileSync(join(root, "go"), "");
    await eventually(() => expect(readdirSync(jobsFolder)).toEqual([]));
    const bodies = await bodiesOf(store, id);
    const endings = kindsIn(bodies, "job_ended").flatMap((body) => (body.kind === "job_ended" ? [body.job_id] : []));
    expect(endings.toSorted()).toEqual(started.toSorted());
    expect(kindsIn(bodies, "notice")).toHaveLength(started.length);
  });

  it("[P3] ends with a runtime that does not resume turns, which records that", async () => {
    const store = createInMemoryStore();
    const { runtime, id, call } = await session({ store, jobsFolder });
    await background(call, "echo $$ > pid; sleep 1000");
    const pid = await numberIn("pid");
    await runtime.close();
    expect(isAlive(pid)).toBe(false);
    expect(kindsIn(await bodiesOf(store, id), "job_ended")).toMatchObject([{ status: "cancelled" }]);
    expect(readdirSync(jobsFolder)).toEqual([]);
  });

  it("[P3] ends when its session is archived or erased, also one of a process that is gone", async () => {
    const shared = createInMemoryStore();
    const killable = killableStore(shared);
    const gone = createRuntime({
      model: createCallingModel(),
      env: { PATH: process.env.PATH },
      projectRoot: root,
      toolPreset: "workspace",
      store: killable.store,
      jobsFolder,
      resumeTurns: true,
    });
    const ids = [(await gone.createSession()).id, (await gone.createSession()).id];
    for (const [at, id] of ids.entries())
      await callTool(gone, id, "shell", { command: `echo $$ > pid${at}; echo quince; sleep 1000`, background: true });
    const pids = [await numberIn("pid0"), await numberIn("pid1")];
    await killable.kill();
    const runtime = start({ store: shared, jobsFolder });
    await runtime.session(ids[0] ?? "").archive();
    await expectDead(pids[0] ?? 0);
    expect(kindsIn(await bodiesOf(shared, ids[0] ?? ""), "job_ended")).toMatchObject([{ status: "cancelled" }]);
    expect(isAlive(pids[1] ?? 0)).toBe(true);
    await runtime.dispatch("forget", { session_id: ids[1] ?? "" });
    await expectDead(pids[1] ?? 0);
    expect(readdirSync(jobsFolder)).toEqual([]);
    expect(JSON.stringify(await bodiesOf(shared, ids[1] ?? ""))).not.toContain("quince");
  });

  it("[P3] is reached by an erased text: its command, its output and its notice", async () => {
    const store = createInMemoryStore();
    const { runtime, id, call } = await session({ store });
    await ended(call, await background(call, "echo quince"));
    await runtime.dispatch("forget", { query_exact: "quince" });
    const bodies = await bodiesOf(store, id);
    expect(JSON.stringify(bodies)).not.toContain("quince");
    expect(kindsIn(bodies, "job_ended")).toHaveLength(1);
  });

  it("[P3] is reached by an erased text while it runs: the lines that say it are blank, and it runs on", async () => {
    const store = createInMemoryStore();
    const { runtime, call } = await session({ store, jobsFolder });
    const job_id = await background(call, "echo before; echo a Quince; echo after; echo qui''nce >&2; sleep 1000");
    const outputs = () => ["stdout", "stderr"].map((name) => readFileSync(join(jobsFolder, job_id, name), "utf8"));
    await eventually(() => expect(outputs()).toEqual(["before\na Quince\nafter\n", "quince\n"]));
    await runtime.dispatch("forget", { query_exact: "quince" });
    expect(outputs()).toEqual(["before\n        \nafter\n", "      \n"]);
    expect(await call("shell_job_status", { job_id })).toMatchObject({ status: "running", stderr: "      \n" });
  });

  it("[P3] that replaces its files is ended, and does not stop others from being followed", async () => {
    const { call } = await session({ jobsFolder });
    const folder = 'd=$(dirname "$(readlink /proc/$$/fd/1)"); ';
    const hostile = [
      `${folder}rm $d/stdout; mkfifo $d/stdout`,
      `${folder}rm $d/stdout; ln -s /dev/zero $d/stdout; mkfifo $d/stopped`,
      `${folder}mkfifo $d/exit; rm $d/stderr`,
      `${folder}printf 0 > $d/exit`,
      `${folder}kill -9 $PPID`,
    ];
    for (const [at, command] of hostile.entries()) {
      const job_id = await background(call, `trap '' TERM; ${command}; echo $$ > pid${at}; sleep 1000`);
      const pid = await numberIn(`pid${at}`);
      const { status } = await ended(call, job_id);
      expect(status).toBe(["failed", "unknown", "failed", "completed", "unknown"][at]);
      await expectDead(pid);
    }
    expect(await ended(call, await background(call, "echo fine"))).toMatchObject({ stdout: "fine\n" });
    expect(readdirSync(jobsFolder)).toEqual([]);
  });

  it("[P3] is found behind a folder that a power failure has damaged, which is deleted after a while", async () => {
    const store = createInMemoryStore();
    const { runtime, id, call } = await session({ store, jobsFolder, resumeTurns: true });
    const job_id = await background(call, "until [ -e go ]; do sleep 0.05; done");
    await runtime.close();
    for (const [name, at] of [["0-old", 0] as const, ["0-new", Date.now() / 1_000] as const]) {
      mkdirSync(join(jobsFolder, name));
      writeFileSync(join(jobsFolder, name, "job.json"), "");
      utimesSync(join(jobsFolder, name), at, at);
    }
    start({ store, jobsFolder, resumeTurns: true });
    writeFileSync(join(root, "go"), "");
    await eventually(() => expect(readdirSync(jobsFolder)).toEqual(["0-new"]));
    expect(kindsIn(await bodiesOf(store, id), "job_ended")).toMatchObject([{ job_id, status: "completed" }]);
  });

  it.each([
    { name: "of an earlier boot", change: { boot: "an earlier one" } },
    { name: "whose number another process has", change: { started: "1" } },
  ])("[P3] $name is reported as unknown, and no process is signalled", async ({ change }) => {
    const store = createInMemoryStore();
    const { runtime, id, call } = await session({ store, jobsFolder, resumeTurns: true });
    const job_id = await background(call, "echo $$ > pid; echo begun; sleep 1000");
    const pid = await numberIn("pid");
    closing.push(async () => void process.kill(pid, "SIGKILL"));
    await runtime.close();
    const path = join(jobsFolder, job_id, "job.json");
    const facts = JSON.parse(readFileSync(path, "utf8"));
    writeFileSync(path, JSON.stringify({ ...facts, ...change }));
    start({ store, jobsFolder, resumeTurns: true });
    await eventually(() => expect(readdirSync(jobsFolder)).toEqual([]));
    expect(kindsIn(await bodiesOf(store, id), "job_ended")).toMatchObject([
      { status: "unknown", report: { stdout: "begun\n", exit_code: null } },
    ]);
    expect(isAlive(pid)).toBe(true);
  });

  it("[P3] that ended by itself does not end a group that was given its number since", async () => {
    const jobs = createJobProcesses({ folder: jobsFolder, clock: createSystemClock(), outlives: true });
    const leader = spawn("/bin/sh", ["-c", "sleep 1000 & echo $! > other"], { cwd: root, detached: true });
    await once(leader, "exit");
    const other = await numberIn("other");
    closing.push(async () => void process.kill(other, "SIGKILL"));
    const { go: _, ...place } = await jobs.start(
      { id: "job", sessionId: "s" },
      { program: "/bin/sh", command: ":", folder: root, env: {}, timeoutMs: 1_000 },
    );
    await jobs.stop("job", "cancelled");
    const facts = { ...place, pid: leader.pid, sessionId: "s", startedAtMs: 0, timeoutMs: 1_000 };
    writeFileSync(join(jobsFolder, "job", "job.json"), JSON.stringify(facts));
    writeFileSync(join(jobsFolder, "job", "exit"), "0");
    await jobs.remove("job");
    expect(isAlive(other)).toBe(true);
  });

  it("[P3] of another machine is reported with the machine, and of a copied log never touched", async () => {
    const store = createInMemoryStore();
    const { runtime, id, call } = await session({ store, jobsFolder });
    const job_id = await background(call, "sleep 1000");
    const other = await runtime.createSession();
    const [first] = kindsIn(await bodiesOf(store, id), "job_started");
    if (first?.kind !== "job_started") throw new Error("no job was recorded");
    const copied = [
      { span: 1, body: { ...first, host: "far-away", job_id: "far" } },
      { span: 1, body: first },
    ];
    await store.log.append(other.id, (await store.sessions.get(other.id))?.last_seq ?? 0, copied);
    const from = (name: string, args = {}) => callTool(runtime, other.id, name, args);
    expect(await from("shell_jobs")).toMatchObject([
      { job_id: "far", status: "unknown", host: "far-away" },
      { job_id, status: "unknown" },
    ]);
    const sentence = "job far runs on far-away, and can be seen and cancelled only there";
    expect(await from("shell_job_status", { job_id: "far" })).toMatchObject({ error: sentence });
    await expect(from("shell_job_cancel", { job_id: "far" })).rejects.toThrow(sentence);
    await expect(from("shell_job_cancel", { job_id })).rejects.toThrow("cannot be seen from here");
    const report = { exit_code: 0, stdout: "", stderr: "", timed_out: false, duration_secs: 0 };
    const end: EntryBody = { kind: "job_ended", job_id, display_name: "", status: "completed", report };
    await store.log.append(other.id, (await store.sessions.get(other.id))?.last_seq ?? 0, [{ span: 1, body: end }]);
    expect(await from("shell_job_status", { job_id })).toMatchObject({ status: "completed" });
    await runtime.session(other.id).archive();
    expect(await call("shell_job_status", { job_id })).toMatchObject({ status: "running" });
  });
});

/** A process that calls tools until it is killed. */
async function startProcess(stateFolder: string, store: readonly string[] = []) {
  const script = join(import.meta.dirname, "job-process.ts");
  const env = { PATH: process.env.PATH, HOME: root };
  const stdio: ["pipe", "pipe", "inherit"] = ["pipe", "pipe", "inherit"];
  const child = spawn(process.execPath, [script, stateFolder, root, ...store], { env, stdio });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  closing.push(kill);
  const id = String((await lines.next()).value);
  const call = async (session_id: string, name: string, args: object = {}) => {
    child.stdin.write(`${JSON.stringify({ id: session_id, name, args })}\n`);
    return JSON.parse(String((await lines.next()).value));
  };
  const stop = async () => {
    child.stdin.write("\n");
    await once(child, "exit");
  };
  return { id, call, kill, stop };
}

/** One job ends while no process looks, the other while two do; each begins one turn, in one of them. */
async function expectTurnsOfJobs(stateFolder: string, store: readonly string[], open: () => Promise<Store>) {
  const first = await startProcess(stateFolder, store);
  const { id } = first;
  const jobs: string[] = [];
  for (const file of ["gone", "go"]) {
    const command = `echo $$ > pid-${file}; until [ -e ${file} ]; do sleep 0.05; done; echo after ${file}`;
    jobs.push((await first.call(id, "shell", { command, background: true, notify: "turn", timeout_secs: 600 })).job_id);
  }
  const pid = await numberIn("pid-gone");
  await first.kill();
  writeFileSync(join(root, "gone"), "");
  await expectDead(pid);
  const others = [await startProcess(stateFolder, store), await startProcess(stateFolder, store)];
  writeFileSync(join(root, "go"), "");
  const read = await open();
  closing.push(() => read.close());
  await eventually(async () => {
    const row = await read.sessions.get(id);
    expect(row).toMatchObject({ has_open_turn: false, queued: 0 });
    expect(kindsIn(await bodiesOf(read, id), "turn_closed")).toHaveLength(4);
  });
  await Promise.all(others.map(({ stop }) => stop()));
  const bodies = await bodiesOf(read, id);
  expect(kindsIn(bodies, "job_ended")).toHaveLength(2);
  expect(kindsIn(bodies, "message_queued")).toHaveLength(2);
  expect(turnsOfJobs(bodies).toSorted()).toEqual(jobs.map((job_id) => `job-${job_id}`).toSorted());
}

describe("a background job whose process was killed", () => {
  it('[Q1] with notify: "turn" begins its turn once, in a process that goes on', async () => {
    const stateFolder = join(root, "state");
    await expectTurnsOfJobs(stateFolder, [], () => openEmbeddedStore(stateFolder));
  });

  it("[P3] is found again by other processes, which follow it, cancel it and deliver its end once", async () => {
    const stateFolder = join(root, "state");
    const first = await startProcess(stateFolder);
    const { id } = first;
    const commands = [
      "echo $$ > one; until [ -e go ]; do sleep 0.05; done; echo ended",
      "echo $$ > two; sleep 1000",
      "until [ -e gone ]; do sleep 0.05; done; echo early; exit 7",
    ];
    const started: string[] = [];
    for (const command of commands)
      started.push((await first.call(id, "shell", { command, background: true, timeout_secs: 600 })).job_id);
    const [one, two, three] = started;
    const pids = [await numberIn("one"), await numberIn("two")];
    await first.kill();
    for (const pid of pids) expect(isAlive(pid)).toBe(true);
    // It ends while no process looks.
    writeFileSync(join(root, "gone"), "");
    await eventually(() => expect(readdirSync(join(stateFolder, "jobs", three ?? ""))).toContain("exit"));

    const [second, third] = await Promise.all([startProcess(stateFolder), startProcess(stateFolder)]);
    const statusOf = (job_id: string | undefined) => second.call(id, "shell_job_status", { job_id });
    expect(await statusOf(three)).toMatchObject({ status: "completed", exit_code: 7, stdout: "early\n" });
    expect(await statusOf(one)).toMatchObject({ status: "running", stdout: "" });
    expect(await second.call(id, "shell_job_cancel", { job_id: two })).toEqual({ job_id: two, status: "cancelled" });
    await expectDead(pids[1] ?? 0);
    writeFileSync(join(root, "go"), "");
    await eventually(() => expect(readdirSync(join(stateFolder, "jobs"))).toEqual([]));
    expect(await third.call(id, "shell_jobs")).toMatchObject([
      { job_id: one, status: "completed" },
      { job_id: two, status: "cancelled" },
      { job_id: three, status: "completed" },
    ]);
    await Promise.all([second.stop(), third.stop()]);
    const store = await openEmbeddedStore(stateFolder);
    const bodies = await bodiesOf(store, id);
    await store.close();
    expect(kindsIn(bodies, "job_ended")).toHaveLength(3);
    const notices = kindsIn(bodies, "notice").map((body) => JSON.stringify(body));
    for (const jobId of started) expect(notices.filter((text) => text.includes(jobId))).toHaveLength(1);
  });

  it("[P3] goes on when its runtime stops and leaves its turns, and ends with its session when that is erased", async () => {
    const stateFolder = join(root, "state");
    const first = await startProcess(stateFolder);
    await first.call(first.id, "shell", { command: "echo $$ > pid; echo quince; sleep 1000", background: true });
    const pid = await numberIn("pid");
    await first.stop();
    expect(isAlive(pid)).toBe(true);
    const options = { model: createCallingModel(), env: { PATH: process.env.PATH }, projectRoot: root };
    const runtime = await openRuntime({ ...options, stateFolder });
    closing.push(() => runtime.close());
    const { receipt } = await runtime.dispatch("forget", { session_id: first.id });
    await expectDead(pid);
    expect(readdirSync(join(stateFolder, "jobs"))).toEqual([]);
    expect(receipt?.scan.elsewhere).toEqual([]);
  });
});

withPostgres("a background job of a realm in a database", () => {
  it('[Q1] with notify: "turn" begins its turn once, in a process that goes on', async () => {
    const url = await databaseFor("jobs");
    await expectTurnsOfJobs(join(root, "state"), [url], () => openPostgresStore({ url, realm: "default" }));
  });

  it("[P3] is found again by another process of its machine, which delivers its end once", async () => {
    const store = [await databaseFor("jobs")];
    const first = await startProcess(join(root, "state"), store);
    const { id } = first;
    const command = "echo $$ > pid; until [ -e go ]; do sleep 0.05; done; exit 5";
    const { job_id } = await first.call(id, "shell", { command, background: true, timeout_secs: 600 });
    const pid = await numberIn("pid");
    await first.kill();
    const [second, elsewhere] = await Promise.all([
      startProcess(join(root, "state"), store),
      startProcess(join(root, "other"), store),
    ]);
    expect(await second.call(id, "shell_job_status", { job_id })).toMatchObject({ status: "running" });
    const unseen = { status: "unknown", error: expect.stringContaining("another state folder") };
    expect(await elsewhere.call(id, "shell_job_status", { job_id })).toMatchObject(unseen);
    writeFileSync(join(root, "go"), "");
    await expectDead(pid);
    await eventually(async () => {
      const status = { status: "completed", exit_code: 5 };
      expect(await elsewhere.call(id, "shell_job_status", { job_id })).toMatchObject(status);
    });
    await Promise.all([second.stop(), elsewhere.stop()]);
  });
});
