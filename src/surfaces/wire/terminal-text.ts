/** Text without what could steer a terminal: a model or a tool must not move the cursor or rename the window. */
export function withoutControls(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, "");
}
