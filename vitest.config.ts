import { defineConfig } from "vitest/config";

// `.ci/run` counts the tests by this report.
const report = process.env.VITEST_JSON;

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    testTimeout: 30_000,
    globalSetup: "test/support/postgres-setup.ts",
    // All cores: on two, the default would leave one idle for minutes of property tests.
    maxWorkers: "100%",
    reporters: report ? ["default", ["json", { outputFile: report }]] : ["default"],
  },
});
