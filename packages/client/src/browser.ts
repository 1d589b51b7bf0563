import { RuntimeError } from "@rkat/core/contract/error";
import { createConnect } from "./connect.ts";

/** `connect` for a page: the same function, without what only Node can do. */
export const connect = createConnect(async () => {
  throw new RuntimeError(
    "CAPABILITY_UNAVAILABLE",
    "a page cannot start a command: connect with the url of a server, such as http://127.0.0.1:8080",
  );
});

export { describeEvent, type EventLine } from "@rkat/core/contract/describe-event";
export { RuntimeError } from "@rkat/core/contract/error";
