import { describe, expect, it } from "vitest";
import type { Message } from "../contract/message.ts";
import { withSkill } from "./context.ts";

const at = { created_at: "2026-01-01T00:00:00.000Z" };
const system: Message = { role: "system", content: "Be brief.", ...at };
const asks: Message = { role: "user", content: "What is the port?", ...at };

describe("a skill at the end of the system prompt", () => {
  it("[D2] is the same message in every request, so that what was made of the last request serves the next", () => {
    const [first, ...rest] = withSkill([system, asks], "Search before you ask.");
    expect(first).toEqual({ role: "system", content: "Be brief.\n\nSearch before you ask.", ...at });
    expect(rest).toEqual([asks]);
    expect(withSkill([system, asks, asks], "Search before you ask.")[0]).toBe(first);
    expect(withSkill([system, asks], "Ask.")[0]).toEqual({ role: "system", content: "Be brief.\n\nAsk.", ...at });
  });

  it("[D2] stands first where there is no system prompt", () => {
    const once = withSkill([asks], "Ask.");
    expect(once).toEqual([{ role: "system", content: "Ask.", ...at }, asks]);
    expect(withSkill([asks, asks], "Ask.")[0]).toBe(once[0]);
    expect(withSkill([system, asks], undefined)).toEqual([system, asks]);
  });
});
