import { defineConfig } from "vitest/config";

// Drawn once here, so that every worker has the same number; a failure is replayed with it.
if (process.env.RKAT_SEED === "fresh") {
  process.env.RKAT_SEED = String(Math.floor(Math.random() * 1_000_000));
  process.stdout.write(`RKAT_SEED=${process.env.RKAT_SEED}\n`);
}

// `.ci/run` counts the tests by this report.
const report = process.env.VITEST_JSON;

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    // For what hangs, not for what is slow: a machine that others use may stand still for a minute.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    globalSetup: "test/support/postgres-setup.ts",
    // All cores: on two, the default would leave one idle for minutes of property tests.
    maxWorkers: "100%",
    reporters: report ? ["default", ["json", { outputFile: report }]] : ["default"],
  },
});
