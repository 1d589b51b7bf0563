import { isLoopback } from "./callers.ts";
import type { Admission } from "./guard.ts";

/** The known addresses of a server. */
export interface OwnAddresses {
  /** Adds the address it listens at. */
  listensAt(url: string): void;
  isOwn(url: string): boolean;
}

const EVERYWHERE = ["0.0.0.0", "::"];

export function createOwnAddresses({ host, allowedHosts }: Pick<Admission, "host" | "allowedHosts">): OwnAddresses {
  let port: string | undefined;
  const names = new Set([host, ...allowedHosts].map((name) => bare(name)));
  const isNear = isLoopback(host) || EVERYWHERE.includes(bare(host));
  return {
    listensAt: (url) => {
      port = portOf(new URL(url));
    },
    isOwn: (url) => {
      if (port === undefined || !URL.canParse(url)) return false;
      const asked = new URL(url);
      const name = bare(asked.hostname);
      // A proxy's name is valid with any port.
      if (allowedHosts.some((one) => bare(one) === name)) return true;
      if (portOf(asked) !== port) return false;
      return names.has(name) || (isNear && (isLoopback(name) || EVERYWHERE.includes(name)));
    },
  };
}

function bare(name: string): string {
  return name
    .toLowerCase()
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/:\d+$/, (port) => (name.split(":").length > 2 ? port : ""));
}

function portOf({ port, protocol }: URL): string {
  return port === "" ? (protocol === "https:" ? "443" : "80") : port;
}
