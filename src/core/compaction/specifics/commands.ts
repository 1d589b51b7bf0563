/** Programs a line in backticks is a command of; other lines need a flag, a pipe or a prompt. */
const PROGRAM =
  /^(?:sudo |time |env |nohup |npx |[A-Z_]+=\S+ )*(?:\.{1,2}\/\S+|~\/\S+|git|gh|npm|npx|pnpm|yarn|bun|deno|node|tsc|vitest|jest|python3?|pip3?|uv|poetry|pytest|ruff|cargo|rustc|go|make|cmake|docker|docker-compose|podman|kubectl|helm|terraform|ansible|aws|gcloud|az|ssh|scp|rsync|curl|wget|psql|mysql|sqlite3|redis-cli|mongosh|systemctl|journalctl|apt|apt-get|brew|yum|ls|cd|cat|grep|rg|sed|awk|find|rm|cp|mv|mkdir|chmod|chown|tar|unzip|kill|ps|top|df|du|tail|head|echo|export|source|bash|sh|zsh|java|mvn|gradle|dotnet|php|composer|ruby|bundle|rails|alembic|dig|ping|openssl|pg_dump|pg_restore|crontab|tmux|vim|jq|wc|sort|diff|patch|rkat)(?:\s|$)/u;
const BACKTICKED = /(?<!`)`([^`\n]{3,300})`(?!`)/gu;
const PROMPTED = /^[ \t]*(?:\w+@[\w.-]+[^$\n]{0,80})?\$ +(\S[^\n]*)$/gmu;
const FENCED = /```(?:sh|bash|shell|zsh|console|terminal)\n([\s\S]*?)```/gu;
const EXIT =
  /\b(?:exit(?:ed|s)?(?:[ -](?:code|status))?|exit[_-]?code|return code|rückgabewert|code de sortie)(?:\s+(?:with|is|was|of|code|status|mit))*["']?\s*(?:[:=]\s*)?(-?\d{1,3})(?!\d|[.,]\d)|(?:退出码|終了コード)(?:为|は|:|：|是)?\s*(\d{1,3})/giu;

/** The commands a text shows: shell lines in backticks, in fences and after a prompt, and exit codes. */
export function commandsIn(text: string): string[] {
  const commands: string[] = [];
  for (const [, body = ""] of text.matchAll(BACKTICKED)) if (isCommand(body)) commands.push(stripPrompt(body));
  for (const [, line = ""] of text.matchAll(PROMPTED)) commands.push(line.trim());
  for (const [, body = ""] of text.matchAll(FENCED)) {
    for (const line of body.split("\n"))
      if (line.trim() !== "" && !/^\s*#/u.test(line)) commands.push(stripPrompt(line));
  }
  for (const code of exitCodesIn(text)) commands.push(`exit code ${code}`);
  return commands;
}

/** The exit codes a text reports. */
export function exitCodesIn(text: string): string[] {
  return [...text.matchAll(EXIT)].map(([, spoken, unspaced]) => spoken ?? unspaced ?? "");
}

function isCommand(body: string): boolean {
  if (!/\s/u.test(body.trim())) return false;
  return PROGRAM.test(stripPrompt(body)) || /\s--?[a-z]|\s[|>]{1,2}\s|&&/u.test(body);
}

function stripPrompt(line: string): string {
  return line.trim().replace(/^\$\s+/u, "");
}
