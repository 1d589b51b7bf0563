import type { Message } from "../../contract/message.ts";

/** The request's messages with a skill at the end of the system prompt. */
export function withSkill(messages: readonly Message[], skill: string | undefined): readonly Message[] {
  if (skill === undefined) return messages;
  const [first, ...rest] = messages;
  if (first?.role === "system") return [{ ...first, content: `${first.content}\n\n${skill}` }, ...rest];
  return [{ role: "system", content: skill, created_at: first?.created_at ?? "" }, ...messages];
}
