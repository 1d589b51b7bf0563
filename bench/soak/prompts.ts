/** What a prompt asks of the model besides an answer. */
export const DIRECTIVES = { tools: "[use tools]", slow: "[speak slowly]", long: "[speak at length]" } as const;

/** Every prompt and every memory has one, and no two are alike. */
export const MARKER = /mark-[0-9a-z]+-\d+-end/;

/** What the model says to a prompt; the driver looks for it. */
export function received(prompt: string): string {
  return `Heard ${MARKER.exec(prompt)?.[0] ?? "nothing"}.`;
}
