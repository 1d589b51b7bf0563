import { type Activity, createActivity } from "./activity.ts";
import { createPaint, type Io } from "./io.ts";
import type { PromptSource } from "./prompts.ts";
import { fitted, openScreen } from "./screen.ts";
import { type Standing, statusLine } from "./status-line.ts";
import { openTypedPrompts, type TypingHelp } from "./typed-prompts.ts";

/** The terminal of a chat: the conversation, the activity row, the input line and the status line. */
export interface Stage {
  /** The process; its output appears above the drawn rows. */
  readonly io: Io;
  readonly activity: Activity;
  openPrompts(help: TypingHelp): PromptSource;
  tellStanding(standing: Standing): void;
  close(): void;
}

export function openStage(given: Io): Stage {
  const screen = openScreen(given);
  const { io } = screen;
  const paint = createPaint(io.stderr, io.env);
  let standing: Standing | undefined;
  const showStanding = (): void => {
    if (standing !== undefined) screen.show("status", [statusLine(standing, screen.columns, paint)]);
  };
  const { output } = io.stdin.terminal();
  output.on("resize", showStanding);
  return {
    io,
    activity: createActivity({
      showsAnswers: true,
      show: (words, time) => {
        const room = Math.max(1, screen.columns - time.length - 4);
        screen.show("activity", words === undefined ? [] : [`${fitted(words, room)} ${paint.dim(time)}`]);
      },
    }),
    openPrompts: (help) => openTypedPrompts(screen, help),
    tellStanding: (next) => {
      standing = next;
      showStanding();
    },
    close: () => {
      output.off("resize", showStanding);
      screen.close();
    },
  };
}
