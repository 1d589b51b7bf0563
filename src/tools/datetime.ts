import { z } from "zod";
import type { Tool } from "../ports/tool.ts";
import { defineTool } from "./define-tool.ts";

interface DatetimeOptions {
  readonly now: () => number;
  /** An IANA name; the machine's own zone unless given. */
  readonly timezone?: string | undefined;
}

/** The tool that tells a model what time it is, in the zone of the machine it works on. */
export function createDatetimeTool(options: DatetimeOptions): Tool {
  return defineTool({
    name: "datetime",
    description: "Tell the current date and time in the local time zone.",
    input: z.strictObject({}),
    run: () => {
      const timezone = options.timezone ?? new Intl.DateTimeFormat().resolvedOptions().timeZone;
      return JSON.stringify(describeMoment(options.now(), timezone));
    },
  });
}

function describeMoment(nowMs: number, timezone: string) {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: timezone,
    calendar: "gregory",
    numberingSystem: "latn",
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    weekday: "long",
    timeZoneName: "longOffset",
  });
  const parts = new Map(format.formatToParts(nowMs).map(({ type, value }) => [type, value]));
  const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? "";
  const date = `${part("year")}-${part("month")}-${part("day")}`;
  const time = `${part("hour")}:${part("minute")}:${part("second")}`;
  // Intl writes the zero offset as a bare "GMT".
  const offset = part("timeZoneName").replace("GMT", "") || "+00:00";
  return {
    iso8601: `${date}T${time}${offset}`,
    date,
    time,
    timezone,
    unix_timestamp: Math.floor(nowMs / 1_000),
    year: Number(part("year")),
    month: Number(part("month")),
    day: Number(part("day")),
    weekday: part("weekday"),
  };
}
