import { spawn } from "node:child_process";
import { RuntimeError } from "../../contract/error.ts";
import { bytesText, type Io } from "./io.ts";

type Words = readonly [program: string, ...args: string[]];

/** What puts its input into the clipboard, where somebody sits at this machine. */
function programsFor({ env }: Io): readonly Words[] {
  const isSet = (name: string): boolean => (env[name] ?? "") !== "";
  // Far away, the clipboard of this machine is nobody's.
  if (isSet("SSH_CONNECTION") || isSet("SSH_TTY")) return [];
  return [
    ["pbcopy"],
    ...(isSet("WAYLAND_DISPLAY") ? [["wl-copy"] as const] : []),
    ...(isSet("DISPLAY") ? [["xclip", "-selection", "clipboard"] as const, ["xsel", "-ib"] as const] : []),
    ["clip.exe"],
  ];
}

const PROGRAM_MS_MAX = 2_000;
/** Terminals take no more at once: 100,000 signs, of which some are not the text's. */
const TERMINAL_BYTES_MAX = 74_994;

/** Puts a text into the clipboard; says in a few words how. Throws INVALID_PARAMS, with what else to do, where it cannot. */
export async function copyText(io: Io, text: string): Promise<string> {
  for (const words of programsFor(io)) {
    if (await feed(words, io, text)) return `by ${words[0]}`;
  }
  const terminal = [io.stdout, io.stderr].find(({ isTerminal }) => isTerminal);
  if (terminal === undefined) throw noClipboard("there is neither a program for it nor a terminal");
  const data = Buffer.from(text);
  if (data.length > TERMINAL_BYTES_MAX)
    throw noClipboard(`a terminal takes ${bytesText(TERMINAL_BYTES_MAX)}, and this is ${bytesText(data.length)}`);
  terminal.write(`\u001b]52;c;${data.toString("base64")}\u0007`);
  return "by the terminal, where it allows that (OSC 52)";
}

function noClipboard(why: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", `nothing was copied: ${why}; /export FILE writes the session to a file`);
}

/** Hands a program the text; false where it is not there, fails, or takes too long. */
function feed([program, ...args]: Words, { env, interrupt }: Io, text: string): Promise<boolean> {
  return new Promise((resolve) => {
    // In a group of its own: what holds the clipboard for others outlives this chat, and its Ctrl-C.
    const signal = AbortSignal.any([interrupt, AbortSignal.timeout(PROGRAM_MS_MAX)]);
    const stdio = ["pipe", "ignore", "ignore"] as const;
    const child = spawn(program, args, { env: { ...env }, stdio: [...stdio], detached: true, signal });
    child.on("error", () => resolve(false));
    child.on("exit", (code) => resolve(code === 0));
    child.stdin?.on("error", () => {});
    // Windows reads what is not said to be UTF-16 in the encoding of the machine.
    child.stdin?.end(program === "clip.exe" ? Buffer.from(`\ufeff${text}`, "utf16le") : text);
  });
}
