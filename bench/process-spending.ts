import { readdirSync, readFileSync } from "node:fs";

/** What this process has handed to the device so far: whole pages, each time one is made dirty. */
export function bytesWritten(): number {
  return Number(/^write_bytes: (\d+)/m.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);
}

/** CPU of all threads of this process so far. */
export function cpuSpentMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** CPU so far of the processes this one has started and that still run, but for one of them. */
export function cpuOfChildrenMs(exceptPid: number): number {
  const tasks = readdirSync("/proc/self/task").map((task) => readFileSync(`/proc/self/task/${task}/children`, "utf8"));
  const pids = tasks.flatMap((children) => children.split(" ").filter(Boolean).map(Number));
  return pids.filter((pid) => pid !== exceptPid).reduce((sum, pid) => sum + cpuOf(pid), 0);
}

const MS_PER_TICK = 10;

/** User and system time are the 14th and 15th field, of which the second may hold spaces. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
}
