import { describe, expect, it } from "vitest";
import { toolContext } from "../../../../test/support/tool-context.ts";
import type { JsonObject } from "../contract/session.ts";
import type { Clock } from "../ports/clock.ts";
import { createTaskTools } from "./tasks.ts";

function createBoard(options: { readonly tasksMax?: number } = {}) {
  let ids = 0;
  let nowMs = 0;
  const clock: Clock = {
    now: () => {
      nowMs += 1_000;
      return nowMs;
    },
    sleep: async () => undefined,
    yieldToEventLoop: () => undefined,
    random: () => 0,
    newId: () => {
      ids += 1;
      return `task-${ids}`;
    },
  };
  const tools = createTaskTools({ clock, ...options });
  return async (name: string, args: JsonObject, sessionId = "session-1") => {
    const tool = tools.find((candidate) => candidate.name === name);
    return JSON.parse(String(await tool?.execute(args, toolContext({ sessionId }))));
  };
}

const plan = { subject: "Plan", description: "Think first" };

describe("task tools", () => {
  it("creates a pending task of medium priority", async () => {
    const call = createBoard();
    expect(await call("task_create", plan)).toEqual({
      id: "task-1",
      subject: "Plan",
      description: "Think first",
      status: "pending",
      priority: "medium",
      labels: [],
      blocks: [],
      blocked_by: [],
      created_at: "1970-01-01T00:00:01.000Z",
      updated_at: "1970-01-01T00:00:01.000Z",
      created_by_session: "session-1",
      updated_by_session: "session-1",
      metadata: {},
    });
  });

  it("changes only what an update gives, and says which session did", async () => {
    const call = createBoard();
    const created = await call("task_create", { ...plan, owner: "ada", labels: ["x"], metadata: { keep: 1, drop: 2 } });
    const updated = await call(
      "task_update",
      { id: "task-1", status: "in_progress", metadata: { drop: null, add: [3] } },
      "session-2",
    );
    expect(updated).toEqual({
      ...created,
      status: "in_progress",
      metadata: { keep: 1, add: [3] },
      updated_at: "1970-01-01T00:00:02.000Z",
      updated_by_session: "session-2",
    });
    expect(await call("task_get", { id: "task-1" })).toEqual(updated);
  });

  it("lists by status and by any of the labels", async () => {
    const call = createBoard();
    await call("task_create", { ...plan, labels: ["a", "b"] });
    await call("task_create", { ...plan, labels: ["c"] });
    await call("task_update", { id: "task-2", status: "completed" });
    const idsOf = async (filter: JsonObject) =>
      (await call("task_list", filter)).map((task: { id: string }) => task.id);
    expect(await idsOf({})).toEqual(["task-1", "task-2"]);
    expect(await idsOf({ status: "completed" })).toEqual(["task-2"]);
    expect(await idsOf({ labels: ["b", "c"] })).toEqual(["task-1", "task-2"]);
    expect(await idsOf({ labels: ["b"], status: "completed" })).toEqual([]);
  });

  it("keeps blocks and blocked_by each other's mirror", async () => {
    const call = createBoard();
    await call("task_create", plan);
    await call("task_create", { ...plan, blocks: ["task-1"] });
    await call("task_create", { ...plan, blocked_by: ["task-1"] });
    expect(await call("task_get", { id: "task-1" })).toMatchObject({ blocks: ["task-3"], blocked_by: ["task-2"] });
    expect(await call("task_get", { id: "task-2" })).toMatchObject({ blocks: ["task-1"], blocked_by: [] });

    await call("task_update", { id: "task-1", remove_blocks: ["task-3"], add_blocks: ["task-2"] });
    await call("task_update", { id: "task-1", remove_blocked_by: ["task-2"], add_blocked_by: ["task-3", "task-3"] });
    expect(await call("task_get", { id: "task-1" })).toMatchObject({ blocks: ["task-2"], blocked_by: ["task-3"] });
    expect(await call("task_get", { id: "task-2" })).toMatchObject({ blocks: [], blocked_by: ["task-1"] });
    expect(await call("task_get", { id: "task-3" })).toMatchObject({ blocks: ["task-1"], blocked_by: [] });
  });

  it("[A5] refuses unknown ids and self-blocking, and changes nothing then", async () => {
    const call = createBoard();
    const before = await call("task_create", plan);
    await expect(call("task_get", { id: "nope" })).rejects.toThrow("there is no task nope");
    await expect(call("task_create", { ...plan, blocks: ["nope"] })).rejects.toThrow("there is no task nope");
    const update = { id: "task-1", subject: "Changed", add_blocks: ["nope"] };
    await expect(call("task_update", update)).rejects.toThrow("there is no task nope");
    const self = { id: "task-1", add_blocked_by: ["task-1"] };
    await expect(call("task_update", self)).rejects.toThrow("task task-1 cannot block itself");
    expect(await call("task_list", {})).toEqual([before]);
  });

  it("[A5] refuses unknown fields and wrong values with one sentence that names them", async () => {
    const call = createBoard();
    await expect(call("task_create", { ...plan, colour: "red" })).rejects.toThrow(/colour: there is no such field/);
    await expect(call("task_create", { subject: "x" })).rejects.toThrow(/^description: /);
    await expect(call("task_update", { id: "a", status: "done" })).rejects.toThrow(/^status: /);
  });

  it("[H5] holds a bounded number of tasks and a bounded task", async () => {
    const call = createBoard({ tasksMax: 2 });
    await call("task_create", plan);
    await call("task_create", plan);
    await expect(call("task_create", plan)).rejects.toThrow("the task list is full: it holds 2 tasks");

    const half = "x".repeat(12_000);
    await call("task_update", { id: "task-1", metadata: { a: half } });
    await expect(call("task_update", { id: "task-1", metadata: { b: half } })).rejects.toThrow(/metadata is larger/);
  });
});
