import { invalid } from "../contract/error.ts";
import { defined } from "../contract/json.ts";
import { z } from "../contract/schema.ts";
import type { JsonObject } from "../contract/session.ts";
import type { Clock } from "../ports/clock.ts";
import type { Tool } from "../ports/tool.ts";
import { defineTool } from "./define-tool.ts";

/** Tasks cannot be deleted, so a model in a loop would fill memory. */
const TASKS_MAX = 10_000;
const SUBJECT_CHARS_MAX = 500;
const DESCRIPTION_CHARS_MAX = 20_000;
const LABELS_MAX = 50;
const LABEL_CHARS_MAX = 100;
const METADATA_CHARS_MAX = 20_000;

const id = z.string().min(1).max(LABEL_CHARS_MAX);
const subject = z.string().min(1).max(SUBJECT_CHARS_MAX).describe("What is to be done, in one line");
const description = z.string().max(DESCRIPTION_CHARS_MAX).describe("What is to be done, in full");
const status = z.enum(["pending", "in_progress", "completed"]);
const priority = z.enum(["low", "medium", "high"]).describe("How urgent the task is");
const labels = z.array(z.string().min(1).max(LABEL_CHARS_MAX)).max(LABELS_MAX);
const owner = z.string().min(1).max(LABEL_CHARS_MAX).describe("Who is to do the task");
const metadata = z.looseObject({});
const taskIds = z.array(id).max(TASKS_MAX);

const TaskCreate = z.strictObject({
  subject,
  description,
  priority: priority.default("medium"),
  labels: labels.default([]).describe("Words to find the task by"),
  blocks: taskIds.optional().describe("Ids of tasks that cannot start before this one is completed"),
  blocked_by: taskIds.optional().describe("Ids of tasks that must be completed before this one can start"),
  owner: owner.optional(),
  metadata: metadata.default({}).describe("Any further facts about the task"),
});

const TaskGet = z.strictObject({ id: id.describe("Id of the task") });

const TaskList = z.strictObject({
  status: status.optional().describe("Only tasks with this status"),
  labels: labels.optional().describe("Only tasks with at least one of these labels"),
});

const TaskUpdate = z.strictObject({
  id: id.describe("Id of the task to change"),
  subject: subject.optional(),
  description: description.optional(),
  status: status.optional().describe("How far the task is"),
  priority: priority.optional(),
  labels: labels.optional().describe("Labels that replace the present ones"),
  owner: owner.optional(),
  metadata: metadata.optional().describe("Facts to add or replace; a null value deletes its key"),
  add_blocks: taskIds.optional().describe("Ids of tasks that this one shall block"),
  remove_blocks: taskIds.optional().describe("Ids of tasks that this one shall no longer block"),
  add_blocked_by: taskIds.optional().describe("Ids of tasks that shall block this one"),
  remove_blocked_by: taskIds.optional().describe("Ids of tasks that shall no longer block this one"),
});

/** The tools over one task list, shared by every session that has them. */
export function createTaskTools({ clock, tasksMax }: { readonly clock: Clock; readonly tasksMax?: number }) {
  const board = createTaskBoard(clock, tasksMax);
  const tools: readonly Tool[] = [
    defineTool({
      name: "task_create",
      description: "Add a task to the task list. Answers with the task and its id.",
      input: TaskCreate,
      run: ({ blocks, blocked_by, ...fields }, { sessionId }) => {
        const links = { addBlocks: blocks, addBlockedBy: blocked_by };
        const given = { ...fields, metadata: mergeMetadata({}, fields.metadata) };
        return JSON.stringify(board.create(given, links, sessionId));
      },
    }),
    defineTool({
      name: "task_get",
      effects: "none",
      description: "Read one task of the task list.",
      input: TaskGet,
      run: (input) => JSON.stringify(board.find(input.id)),
    }),
    defineTool({
      name: "task_list",
      effects: "none",
      description: "List tasks, oldest first, optionally only those with a status or any of some labels.",
      input: TaskList,
      run: (input) => {
        const isWanted = (task: { readonly status: string; readonly labels: readonly string[] }) =>
          (input.status === undefined || task.status === input.status) &&
          (input.labels === undefined || input.labels.some((label) => task.labels.includes(label)));
        return JSON.stringify(board.list().filter(isWanted));
      },
    }),
    defineTool({
      name: "task_update",
      description: "Change fields of a task, or which tasks it blocks. Only what is given changes.",
      input: TaskUpdate,
      run: ({ id: taskId, add_blocks, remove_blocks, add_blocked_by, remove_blocked_by, ...given }, { sessionId }) => {
        const links = {
          addBlocks: add_blocks,
          removeBlocks: remove_blocks,
          addBlockedBy: add_blocked_by,
          removeBlockedBy: remove_blocked_by,
        };
        const merged = mergeMetadata(board.find(taskId).metadata, given.metadata ?? {});
        const fields = defined({ ...given, metadata: merged });
        return JSON.stringify(board.update(taskId, { fields, links }, sessionId));
      },
    }),
  ];
  return tools;
}

function mergeMetadata(present: JsonObject, changes: JsonObject): JsonObject {
  const merged = Object.fromEntries(Object.entries({ ...present, ...changes }).filter(([, value]) => value !== null));
  if (JSON.stringify(merged).length <= METADATA_CHARS_MAX) return merged;
  throw invalid(`a task's metadata is larger than ${METADATA_CHARS_MAX} characters`);
}

type TaskStatus = "pending" | "in_progress" | "completed";
type TaskPriority = "low" | "medium" | "high";

interface Task {
  readonly id: string;
  readonly subject: string;
  readonly description: string;
  readonly status: TaskStatus;
  readonly priority: TaskPriority;
  readonly labels: readonly string[];
  readonly blocks: readonly string[];
  readonly blocked_by: readonly string[];
  readonly created_at: string;
  readonly updated_at: string;
  readonly created_by_session?: string;
  readonly updated_by_session?: string;
  readonly owner?: string;
  readonly metadata: JsonObject;
}

type TaskFields = Pick<Task, "subject" | "description" | "status" | "priority" | "labels" | "owner" | "metadata">;
type NewTask = Pick<Task, "subject" | "description" | "priority" | "labels" | "metadata"> & {
  readonly owner?: string | undefined;
};

/** Links to add and remove; the other end of each changes with it. */
interface TaskLinks {
  readonly addBlocks?: readonly string[] | undefined;
  readonly removeBlocks?: readonly string[] | undefined;
  readonly addBlockedBy?: readonly string[] | undefined;
  readonly removeBlockedBy?: readonly string[] | undefined;
}

interface TaskChange {
  readonly fields: Partial<TaskFields>;
  readonly links: TaskLinks;
}

interface TaskBoard {
  create(fields: NewTask, links: TaskLinks, sessionId: string): Task;
  find(id: string): Task;
  list(): readonly Task[];
  update(id: string, change: TaskChange, sessionId: string): Task;
}

/** A task list in memory, oldest first. A change that names an unknown task changes nothing. */
function createTaskBoard(clock: Clock, tasksMax = TASKS_MAX): TaskBoard {
  const tasks = new Map<string, Task>();

  const find = (id: string): Task => {
    const task = tasks.get(id);
    if (task === undefined) throw invalid(`there is no task ${id}`);
    return task;
  };

  const checkLinks = (id: string, links: TaskLinks) => {
    for (const other of Object.values(links).flatMap((ids: readonly string[] | undefined) => ids ?? [])) {
      if (other === id) throw invalid(`task ${id} cannot block itself`);
      find(other);
    }
  };

  const applyLinks = (id: string, links: TaskLinks, stamp: Stamp) => {
    const linkWith = (change: typeof withId) => (blocker: string, blocked: string) => {
      const before = find(blocker);
      tasks.set(blocker, { ...before, blocks: change(before.blocks, blocked), ...stamp });
      const after = find(blocked);
      tasks.set(blocked, { ...after, blocked_by: change(after.blocked_by, blocker), ...stamp });
    };
    const [link, unlink] = [linkWith(withId), linkWith(withoutId)];
    for (const other of links.addBlocks ?? []) link(id, other);
    for (const other of links.addBlockedBy ?? []) link(other, id);
    for (const other of links.removeBlocks ?? []) unlink(id, other);
    for (const other of links.removeBlockedBy ?? []) unlink(other, id);
  };

  const stampOf = (sessionId: string): Stamp => ({
    updated_at: new Date(clock.now()).toISOString(),
    updated_by_session: sessionId,
  });

  return {
    create: ({ owner, ...fields }, links, sessionId) => {
      if (tasks.size >= tasksMax) throw invalid(`the task list is full: it holds ${tasksMax} tasks`);
      const id = clock.newId();
      checkLinks(id, links);
      const stamp = stampOf(sessionId);
      tasks.set(id, {
        id,
        ...fields,
        status: "pending",
        blocks: [],
        blocked_by: [],
        created_at: stamp.updated_at,
        created_by_session: sessionId,
        ...stamp,
        ...(owner === undefined ? {} : { owner }),
      });
      applyLinks(id, links, stamp);
      return find(id);
    },
    find,
    list: () => [...tasks.values()],
    update: (id, { fields, links }, sessionId) => {
      const task = find(id);
      checkLinks(id, links);
      const stamp = stampOf(sessionId);
      tasks.set(id, { ...task, ...fields, ...stamp });
      applyLinks(id, links, stamp);
      return find(id);
    },
  };
}

interface Stamp {
  readonly updated_at: string;
  readonly updated_by_session: string;
}

const withId = (ids: readonly string[], id: string): readonly string[] => (ids.includes(id) ? ids : [...ids, id]);
const withoutId = (ids: readonly string[], id: string): readonly string[] => ids.filter((other) => other !== id);
