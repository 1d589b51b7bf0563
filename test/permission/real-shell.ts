import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Real programs that lines are built of; everything else is a stub that only notes that it ran. */
const REAL = [
  "bash",
  "sh",
  "dash",
  "env",
  "nice",
  "nohup",
  "timeout",
  "stdbuf",
  "setsid",
  "xargs",
  "find",
  "cat",
  "tee",
];
const STUBS = ["git", "rm", "ls", "head", "npm"];

interface RealRun {
  /** The programs that ran, in no order, each once. */
  readonly programs: readonly string[];
  /** Whether the file `victim` was written. */
  readonly isWritten: boolean;
}

export interface RealShell {
  run(line: string, shell?: "bash" | "dash"): RealRun;
  close(): void;
}

const TIMEOUT_MS = 10_000;

/** A folder in which command lines run for real, and can do no harm: every program they find notes its name. */
export function openRealShell(): RealShell {
  const folder = mkdtempSync(join(tmpdir(), "rkat-shell-"));
  const [bin, work, log] = [join(folder, "bin"), join(folder, "work"), join(folder, "log")];
  mkdirSync(bin);
  const stub = (path: string, name: string, then = ""): void => {
    writeFileSync(path, `#!/bin/sh\necho ${name} >> "${log}"\n${then}`);
    chmodSync(path, 0o755);
  };
  for (const name of STUBS) stub(join(bin, name), name);
  stub(
    join(bin, "sudo"),
    "sudo",
    'while :; do case "$1" in -u) shift 2;; -*|*=*) shift;; *) break;; esac; done\nexec "$@"\n',
  );
  for (const name of REAL) {
    const found = ["/usr/bin", "/bin"].map((at) => join(at, name)).find((path) => existsSync(path));
    if (found !== undefined) symlinkSync(found, join(bin, name));
  }
  return {
    run: (line, shell = "bash") => {
      rmSync(work, { recursive: true, force: true });
      mkdirSync(join(work, "evil"), { recursive: true });
      mkdirSync(join(work, "sub"));
      writeFileSync(log, "");
      writeFileSync(join(work, "f"), "x\n");
      writeFileSync(join(work, "evil.sh"), "rm x\n");
      stub(join(work, "evil", "git"), "rm");
      stub(join(work, "rm"), "rm");
      spawnSync(join(bin, shell), ["-c", line], {
        cwd: work,
        env: { PATH: bin, HOME: work },
        // The pipe is held by everything the line starts: only when all of it has ended is the run over.
        stdio: ["ignore", "ignore", "ignore", "pipe"],
        timeout: TIMEOUT_MS,
      });
      const isWritten = existsSync(join(work, "victim"));
      return {
        programs: [
          ...new Set(
            readFileSync(log, "utf8")
              .split("\n")
              .filter((name) => name !== ""),
          ),
        ],
        isWritten,
      };
    },
    close: () => rmSync(folder, { recursive: true, force: true }),
  };
}
