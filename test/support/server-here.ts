import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { openRestServer, type RestService } from "@rkat/server/rest/serve";

/** A server on a port of this machine that says nothing and wants no token. */
export function openServerHere(
  runtime: RestService["runtime"],
  realm: string,
  more: Partial<RestService> = {},
): ReturnType<typeof openRestServer> {
  return openRestServer({
    host: "127.0.0.1",
    port: 0,
    allowedHosts: [],
    allowedOrigins: [],
    token: undefined,
    runtime,
    about: { realm },
    version: "1.2.3",
    clock: createSystemClock(),
    log: () => {},
    ...more,
  });
}
