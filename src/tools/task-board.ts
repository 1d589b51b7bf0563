import { RuntimeError } from "../contract/error.ts";
import type { JsonObject } from "../contract/session.ts";
import type { Clock } from "../ports/clock.ts";

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

/** Edges to add and remove; the other end of each is changed with it. */
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

export interface TaskBoard {
  create(fields: NewTask, links: TaskLinks, sessionId: string): Task;
  find(id: string): Task;
  list(): readonly Task[];
  update(id: string, change: TaskChange, sessionId: string): Task;
}

/** Tasks a board holds; there is no way to delete one, so a model in a loop would fill memory. */
export const TASKS_MAX = 10_000;

/** A task list in memory, oldest first. A change that names an unknown task changes nothing. */
export function createTaskBoard(clock: Clock, tasksMax = TASKS_MAX): TaskBoard {
  const tasks = new Map<string, Task>();

  const find = (id: string): Task => {
    const task = tasks.get(id);
    if (task === undefined) throw new RuntimeError("INVALID_PARAMS", `there is no task ${id}`);
    return task;
  };

  const checkLinks = (id: string, links: TaskLinks) => {
    for (const other of Object.values(links).flatMap((ids: readonly string[] | undefined) => ids ?? [])) {
      if (other === id) throw new RuntimeError("INVALID_PARAMS", `task ${id} cannot block itself`);
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
      if (tasks.size >= tasksMax) {
        throw new RuntimeError("INVALID_PARAMS", `the task list is full: it holds ${tasksMax} tasks`);
      }
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
