import { monitorEventLoopDelay } from "node:perf_hooks";

/** How long others waited at most while some work went on. */
export interface LoopBlocks {
  /** By the clock on the wall, which counts what else the machine did. */
  readonly wallMs: number;
  /** CPU of the main thread in one round of its event loop: what the work itself kept others waiting. */
  readonly cpuMs: number;
}

/** Does work and looks at every round of the event loop meanwhile; looking costs CPU, so that is not for this to measure. */
export async function blocksOf(work: () => Promise<unknown>): Promise<LoopBlocks> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  let isLooking = true;
  let longest = 0;
  let before = threadCpuMs();
  const look = (): void => {
    const now = threadCpuMs();
    longest = Math.max(longest, now - before);
    before = threadCpuMs();
    if (isLooking) setImmediate(look);
  };
  setImmediate(look);
  delay.enable();
  await work();
  await new Promise(setImmediate);
  delay.disable();
  isLooking = false;
  await new Promise(setImmediate);
  return { wallMs: delay.max / 1e6, cpuMs: longest };
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
