import { createPaint, type Io } from "../io.ts";
import type { PromptSource } from "../prompts.ts";
import { type Activity, createActivity } from "./activity.ts";
import { fitted, openScreen } from "./screen.ts";
import { type ChatStatus, statusLine } from "./status-line.ts";
import { openTypedPrompts, type TypingHelp } from "./typed-prompts.ts";

/** The terminal of a chat: the conversation, the activity row, the input line and the status line. */
export interface Stage {
  /** The process; its output appears above the drawn rows. */
  readonly io: Io;
  readonly activity: Activity;
  openPrompts(help: TypingHelp): PromptSource;
  showStatus(status: ChatStatus): void;
  close(): void;
}

export function openStage(given: Io): Stage {
  const screen = openScreen(given);
  const { io } = screen;
  const paint = createPaint(io.stderr, io.env);
  let status: ChatStatus | undefined;
  const showChatStatus = (): void => {
    if (status !== undefined) screen.show("status", [statusLine(status, screen.columns, paint)]);
  };
  const { output } = io.stdin.terminal();
  output.on("resize", showChatStatus);
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
    showStatus: (next) => {
      status = next;
      showChatStatus();
    },
    close: () => {
      output.off("resize", showChatStatus);
      screen.close();
    },
  };
}
