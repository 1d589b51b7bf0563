import type { Clock } from "@rkat/core/ports/clock";
import type { AnswerFailure } from "./http-answer.ts";
import type { Route } from "./router.ts";
import type { TurnRequests } from "./turn-requests.ts";

/** A surface that is served beside REST: on its port, under its guard, within its limits. */
export interface Mount {
  /** What its paths begin with, such as `/v1/`. */
  readonly prefix: string;
  readonly routes: readonly Route[];
  /** How failures at its paths are worded, also those of the guard. */
  readonly answerFailure: AnswerFailure;
}

/** What a surface is handed where it is mounted; the runtime comes with each request, asked by its caller. */
export interface MountParts {
  readonly realm: string;
  readonly clock: Clock;
  readonly log: (sentence: string) => void;
  readonly turns: TurnRequests;
}

export type OpenMount = (parts: MountParts) => Mount;
