import { spawn } from "node:child_process";

/** The parts of the machine that determine whether a browser can be opened. */
interface Seat {
  readonly platform: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isTerminal: boolean;
}

type Words = readonly [command: string, ...args: string[]];

/** The command that opens an address; undefined without a terminal or a display. */
export function browserWords({ platform, env, isTerminal }: Seat): Words | undefined {
  if (!isTerminal) return undefined;
  if (platform === "darwin") return ["open"];
  if (platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler"];
  const hasDisplay = [env.DISPLAY, env.WAYLAND_DISPLAY].some((display) => display !== undefined && display !== "");
  return hasDisplay ? ["xdg-open"] : undefined;
}

/** Opens addresses in the user's browser; one that cannot be opened was printed before. */
export function createBrowserOpener(seat: Seat): ((url: string) => void) | undefined {
  const words = browserWords(seat);
  if (words === undefined) return undefined;
  const [command, ...args] = words;
  return (url) => {
    const child = spawn(command, [...args, url], { stdio: "ignore", detached: true, env: { ...seat.env } });
    child.on("error", () => {});
    child.unref();
  };
}
