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

/** Also real where lines are held against rules on one program: what starts others in ways of its own, and what only looks. */
const FURTHER =
  "rbash choom setpriv prlimit taskset chrt linux64 flock unshare chroot runuser ionice run-parts install split tar perl awk sed python3 make ssh " +
  "sort uniq cut tr wc grep diff cp mv mkdir rmdir ln touch stat basename readlink realpath du which sha256sum date sleep pgrep ps ls head tail jq file";

/** A `git` that notes a push, whatever options precede the word, and hands everything else to the real one. */
const GIT = `pushes() {
  while :; do case "$1" in -C|-c|--git-dir|--work-tree|--namespace) shift 2;; -*) shift;; *) break;; esac; done
  [ "$1" = push ]
}
pushes "$@" && exec push
exec /usr/bin/git "$@"
`;

interface RealRun {
  /** The programs that ran, in no order, each once. */
  readonly programs: readonly string[];
  /** Whether the file `victim` was written. */
  readonly isWritten: boolean;
}

export interface RealShell {
  run(line: string, shell?: "bash" | "dash"): RealRun;
  /** Whether a real program of this name is there. */
  has(program: string): boolean;
  close(): void;
}

const TIMEOUT_MS = 10_000;

/**
 * A folder in which command lines run for real, and can do no harm: every program they find notes its name. With
 * `hasEvil` more of them are real, and those that note their names are `evil`, `rm` and `push`, which `git push` starts.
 */
export function openRealShell({ hasEvil = false } = {}): RealShell {
  const folder = mkdtempSync(join(tmpdir(), "rkat-shell-"));
  const [bin, work, log] = [join(folder, "bin"), join(folder, "work"), join(folder, "log")];
  mkdirSync(bin);
  const stub = (path: string, name: string, then = ""): void => {
    writeFileSync(path, `#!/bin/sh\necho ${name} >> "${log}"\n${then}`);
    chmodSync(path, 0o755);
  };
  for (const name of hasEvil ? ["evil", "rm", "push"] : STUBS) stub(join(bin, name), name);
  if (hasEvil) stub(join(bin, "git"), "git", GIT);
  stub(
    join(bin, "sudo"),
    "sudo",
    'while :; do case "$1" in -u) shift 2;; -*|*=*) shift;; *) break;; esac; done\nexec "$@"\n',
  );
  for (const name of hasEvil ? [...REAL, ...FURTHER.split(" ")] : REAL) {
    const found = ["/usr/bin", "/bin", "/usr/sbin"].map((at) => join(at, name)).find((path) => existsSync(path));
    if (found !== undefined) symlinkSync(found, join(bin, name));
  }
  return {
    run: (line, shell = "bash") => {
      rmSync(work, { recursive: true, force: true });
      mkdirSync(join(work, "sub"), { recursive: true });
      writeFileSync(log, "");
      writeFileSync(join(work, "f"), "x\n");
      writeFileSync(join(work, "evil.sh"), hasEvil ? "evil\n" : "rm x\n");
      if (!hasEvil) mkdirSync(join(work, "evil"));
      stub(hasEvil ? join(work, "evil") : join(work, "evil", "git"), hasEvil ? "evil" : "rm");
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
    has: (program) => existsSync(program === "git" ? "/usr/bin/git" : join(bin, program)),
    close: () => rmSync(folder, { recursive: true, force: true }),
  };
}
