import type { Plan, PlanEntry } from "@agentclientprotocol/sdk";
import { isRecord } from "../http/incoming.ts";

/** The tasks of a session by id, in order. */
export type Tasks = Map<string, PlanEntry>;

const TASKS_MAX = 200;
const PRIORITIES = ["high", "medium", "low"] as const;
const STATUSES = ["pending", "in_progress", "completed"] as const;

/** Applies the result of a task tool; returns the plan when it changed, undefined for other tools. */
export function takeTasks(tasks: Tasks, tool: string, answer: string): Plan | undefined {
  if (!/^task_(?:create|get|list|update)$/.test(tool)) return undefined;
  const before = JSON.stringify([...tasks]);
  for (const task of tasksIn(answer)) {
    const priority = PRIORITIES.find((known) => known === task.priority) ?? "medium";
    const status = STATUSES.find((known) => known === task.status) ?? "pending";
    const id = String(task.id);
    if (tasks.has(id) || tasks.size < TASKS_MAX) tasks.set(id, { content: String(task.subject), priority, status });
  }
  return JSON.stringify([...tasks]) === before ? undefined : { entries: [...tasks.values()] };
}

function tasksIn(answer: string): readonly Readonly<Record<string, unknown>>[] {
  try {
    const value: unknown = JSON.parse(answer);
    return (Array.isArray(value) ? value : [value]).filter((task) => isRecord(task) && "subject" in task);
  } catch {
    // A task tool that failed answers with a sentence.
    return [];
  }
}
