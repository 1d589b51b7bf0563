import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { LONGTERM_HEADING, RECENT_HEADING } from "../agent-memory/tier-text.ts";
import { checkSummary, cutInvented } from "../grounding/groundedness.ts";
import { cutInSections, readSections, sectionText, writeSections } from "./shown-messages.ts";

describe("a summary of two sections", () => {
  it("[E9] has the older past first, and no heading for what is not there", async () => {
    expect(writeSections({ longterm: "Ada came.", recent: "- Bob left." })).toBe(
      "## Older Memories (Summary)\nAda came.\n\n## Recent Past (Summary)\n- Bob left.",
    );
    expect(writeSections({ longterm: "", recent: "Bob left." })).toBe("## Recent Past (Summary)\nBob left.");
    expect(writeSections({ longterm: "Ada came.", recent: " " })).toBe("## Older Memories (Summary)\nAda came.");
  });

  it("[E9] takes a summary of another strategy for the recent past", async () => {
    const summary = "## Progress\n- Ada came.";
    expect(readSections(summary)).toEqual({ longterm: "", recent: summary });
    const quoted = `They spoke of a heading:\n${LONGTERM_HEADING}\nAda came.`;
    expect(readSections(quoted)).toEqual({ longterm: "", recent: quoted });
  });

  it("[E9] is read as it was written, whatever stands in it", async () => {
    const line = fc.oneof(
      fc.string(),
      fc.constantFrom(
        LONGTERM_HEADING,
        RECENT_HEADING,
        ` ${RECENT_HEADING}\r`,
        "",
        "```",
        "~~~ts",
        "## Progress",
        "- a",
      ),
    );
    const text = fc.array(line, { maxLength: 8 }).map((lines) => lines.join("\n"));
    fc.assert(
      fc.property(text, text, (longterm, recent) => {
        const written = writeSections({ longterm, recent });
        expect(readSections(written)).toEqual({ longterm: sectionText(longterm), recent: sectionText(recent) });
        expect(writeSections(readSections(written))).toBe(written);
      }),
    );
  });

  it("[E9] keeps its headings when something is cut, and is nothing without one of its sections", async () => {
    const source = [{ role: "user" as const, content: "Build 1007 is green. Ada came.", created_at: "" }];
    const cut = async (summary: string): Promise<string> => {
      const { invented } = await checkSummary(summary, source, () => undefined);
      return cutInSections(summary, (text) => cutInvented(text, invented));
    };
    const longterm = "Ada came. Build 9999 fell.";
    expect(
      await cut(writeSections({ longterm, recent: "## Progress\n- Build 1007 is green.\n- Build 8888 fell." })),
    ).toBe(writeSections({ longterm: "Ada came.", recent: "## Progress\n- Build 1007 is green." }));
    expect(await cut(writeSections({ longterm, recent: "## Progress\n- Build 8888 fell." }))).toBe("");
    expect(await cut(writeSections({ longterm: "Build 9999 fell.", recent: "Build 1007 is green." }))).toBe("");
    expect(await cut(writeSections({ longterm: "", recent: "Build 9999 fell. Ada came." }))).toBe(
      writeSections({ longterm: "", recent: "Ada came." }),
    );
  });

  it("[E9] cuts in the recent section, too, when code in the other one has no end", async () => {
    const source = [{ role: "user" as const, content: "Run `npm ci`. Ada came.", created_at: "" }];
    const summary = writeSections({ longterm: "Run this:\n```sh\nnpm ci", recent: "Ada came. Build 9999 fell." });
    const { invented } = await checkSummary(summary, source, () => undefined);
    expect(cutInSections(summary, (text) => cutInvented(text, invented))).toBe(
      writeSections({ longterm: "Run this:\n```sh\nnpm ci", recent: "Ada came." }),
    );
  });
});
