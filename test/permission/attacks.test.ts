import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createPolicy, judgeCall } from "@rkat/core/permission/judge";
import { describe, expect, it } from "vitest";

/** Lines that were proved to do more than a rule said, each in a real shell. */
const PAST_ALLOW = [
  `git status "\${x:-$'$(touch pwned)'}"`,
  `y=v; test -"$y" 'a[$(touch pwned)]'; git status`,
  `y=v; [ -"$y" 'a[$(touch pwned)]' ]; git status`,
  `y=v; printf -"$y" PATH %s /evil:/bin; git status`,
  `x='a[$(touch pwned)]'; a=([x]=1); git status`,
  `cd /etc && git status && eval 'echo x > src/key'`,
];
const PAST_DENY = [
  "env - /bin/rm x",
  "eval -- rm x",
  "bash -c - 'rm x'",
  "echo x | xargs --max-lines rm x",
  "echo rm | xargs -Ix -Iy env y",
  `cat <<E\n\${x:-'$(rm x)'}\nE`,
  `echo "\${x-'}"; rm x; echo "'}"`,
  "taskset 1 rm x",
  "setarch -R rm x",
  "linux64 rm x",
  "chrt -o 0 rm x",
  "prlimit rm x",
  `y=ec; find . -ex"$y" rm {} \\;`,
  "echo 'system(\"rm\")' | perl",
  "perl -e'system+rm'",
  "perl -e 'exec(qw/rm/)'",
  "sed -f /dev/stdin f <<< '1e rm'",
  "sed s/a/b/\\;1erm f",
  "sed -n '$erm' f",
  "make SHELL=./rm -f - <<'E'\nx:;y\nE",
  "make -f - <<'E'\nx:;rm\nE",
  "git clone -c core.sshCommand=rm ssh://x/y",
  "git fetch --upload-pack=rm ./sub",
  "X=rm git --config-env=core.sshCommand=X ls-remote ssh://x/y",
  "git -c core.pager=rm -p help -a",
  "LESSOPEN='|rm %s' less f",
  'ls() { choom -n 0 "$@"; }; ls rm',
  "jobs -nx rm",
  "x=--upload-pack=rm; git fetch $x ./sub",
  "x='x/rm/e'; sed \"s/$x\" f",
  "cat <<$'E'\nx\n$E\nrm x\nE",
];
const PAST_FILES = [
  "command cd secrets && echo > key",
  "builtin cd secrets && echo > key",
  "cd secrets && eval 'echo > key'",
];

const judged = (rules: object, command: string) =>
  judgeCall(
    createPolicy([{ from: "project", rules }], () => "ask"),
    { tool: "shell", args: { command }, root: "/project" },
  ).verdict;

describe("the rules that docs/permissions.md begins with", () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/permissions.md"), "utf8");
  const block = /```toml\n\[permissions\]\n(.*?)```/s.exec(page)?.[1] ?? "";
  const rules = Object.fromEntries(
    [...block.matchAll(/^(\w+) = (\[.*\])$/gm)].map(([, kind = "", list = ""]) => [kind, JSON.parse(list)]),
  );

  it.each([
    ["rm -rf x", "deny"],
    ["rm -fr x", "deny"],
    ["rm -r -f x", "deny"],
    ["git push", "ask"],
    ["git -C . push", "ask"],
    ["git --no-pager -c a=b push origin", "ask"],
    ["git status > src/.env", "deny"],
    ["git status", "allow"],
    ["npm run test -- --x > src/out", "allow"],
  ])("[I1] hold as written: %s: %s", (line, verdict) => {
    expect(judged(rules, line)).toBe(verdict);
  });
});

describe("a line that has slipped past a rule before", () => {
  it.each(PAST_ALLOW)("[I1] is not allowed by what it begins with: %s", (line) => {
    const allow = ["shell(git status *)", "shell(cd *)", "apply_patch(src/**)"];
    expect(judged({ allow }, line)).not.toBe("allow");
  });

  it.each(PAST_DENY)("[I1] is not allowed past a denial: %s", (line) => {
    expect(judged({ allow: ["shell"], deny: ["shell(rm *)"] }, line)).not.toBe("allow");
  });

  it.each(PAST_FILES)("[I1] does not write where nothing may be written: %s", (line) => {
    expect(judged({ allow: ["shell", "apply_patch"], deny: ["apply_patch(secrets/**)"] }, line)).not.toBe("allow");
  });
});
