import { availableParallelism } from "node:os";
import { configDefaults, defineConfig } from "vitest/config";

// Drawn once here, so that every worker has the same number; a failure is replayed with it.
if (process.env.RKAT_SEED === "fresh") {
  process.env.RKAT_SEED = String(Math.floor(Math.random() * 1_000_000));
  process.stdout.write(`RKAT_SEED=${process.env.RKAT_SEED}\n`);
}

// `.ci/run` counts the tests by this report.
const report = process.env.VITEST_JSON;

const [TESTS, PROCESS, SLOW] = [
  "{packages/*/src,test}/**/*.test.ts",
  "{packages/*/src,test}/**/*.process.test.ts",
  "{packages/*/src,test}/**/*.slow.test.ts",
];
const withProcesses = { globalSetup: ["test/support/build-setup.ts", "test/support/postgres-setup.ts"] };

export default defineConfig({
  test: {
    // For what hangs, not for what is slow: a machine that others use may stand still for a minute.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    // More workers than cores: tests that start processes, browsers and terminals wait for much of their time.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    reporters: report ? ["default", ["json", { outputFile: report }]] : ["default"],
    projects: [
      // Files of one worker share their modules, which are loaded once instead of three hundred times.
      {
        extends: true,
        test: { name: "fast", include: [TESTS], exclude: [...configDefaults.exclude, PROCESS, SLOW], isolate: false },
      },
      { extends: true, test: { name: "process", include: [PROCESS], ...withProcesses } },
      { extends: true, test: { name: "slow", include: [SLOW], ...withProcesses } },
    ],
  },
});
