import type { IncomingHttpHeaders } from "node:http";
import type { Caller, Scope } from "@rkat/core/contract/caller";
import { invalid } from "@rkat/core/contract/error";
import type { OperationName } from "@rkat/core/contract/operations";
import type { Clock } from "@rkat/core/ports/clock";
import type { Listener } from "@rkat/core/sessions/event-queue";
import type { Body } from "./body.ts";
import type { CallerRuntime } from "./calls.ts";
import type { HttpResponse } from "./exchange.ts";
import type { Answer, AnswerFailure } from "./http-answer.ts";
import type { TurnRequests } from "./turn-requests.ts";

/** A request whose route is known and whose body was read. */
export interface RestRequest {
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Body;
  /** What it was made of, if it is not Node's. */
  readonly source: Request | undefined;
  readonly caller: Caller;
  readonly runtime: CallerRuntime;
}

interface RoutePlace {
  readonly method: string;
  /** As in the table of operations: `/sessions/{session_id}`. */
  readonly path: string;
  /** The scope that the caller needs; undefined for routes without a token. */
  readonly scope: Scope | undefined;
  /** Whether pages of other origins may link to it. */
  readonly isPage?: boolean;
  readonly isLasting?: boolean;
  readonly operation?: OperationName;
}

export interface AnsweredRoute extends RoutePlace {
  /** Whether it runs something with events, which `serve` sends to a listener. */
  readonly hasEvents?: boolean;
  serve(request: RestRequest, listener?: Listener): Answer | Promise<Answer>;
}

export interface StreamedRoute extends RoutePlace {
  stream(request: RestRequest, response: HttpResponse): Promise<Answer | undefined>;
}

export type Route = AnsweredRoute | StreamedRoute;

export type Found =
  | { readonly kind: "found"; readonly route: Route; readonly params: Readonly<Record<string, string>> }
  | { readonly kind: "wrong_method"; readonly allow: string }
  | { readonly kind: "unknown" };

/** Finds the route of a method and a path; the first match wins. */
export function createRouter(routes: readonly Route[]): (method: string, path: string) => Found {
  const rows = routes.map((route) => ({ route, pattern: route.path.split("/") }));
  return (method, path) => {
    const segments = path.split("/");
    const fitting = rows.filter(({ pattern }) => fits(pattern, segments));
    if (fitting.length === 0) return { kind: "unknown" };
    const wanted = method === "HEAD" ? "GET" : method;
    const row = fitting.find(({ route }) => route.method === wanted);
    if (row !== undefined) return { kind: "found", route: row.route, params: paramsOf(row.pattern, segments) };
    const methods = new Set(fitting.map(({ route }) => route.method));
    return { kind: "wrong_method", allow: [...(methods.has("GET") ? ["HEAD"] : []), ...methods].sort().join(", ") };
  };
}

/** The path and the query of a request line's target; throws INVALID_PARAMS for one that has no path. */
export function parseTarget(target: string): { readonly path: string; readonly query: URLSearchParams } {
  const relative = target.replace(/^https?:\/\/[^/?#]*/i, "");
  const [whole = ""] = relative.split("#", 1);
  const mark = whole.indexOf("?");
  const path = mark < 0 ? whole : whole.slice(0, mark);
  if (!path.startsWith("/")) throw invalid("the request's path does not begin with /");
  return { path, query: new URLSearchParams(mark < 0 ? "" : whole.slice(mark + 1)) };
}

function placeIn(segment: string): string | undefined {
  return /^\{(\w+)\}$/.exec(segment)?.[1];
}

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  if (pattern.length !== segments.length) return false;
  return pattern.every((part, index) =>
    placeIn(part) === undefined ? part === segments[index] : segments[index] !== "",
  );
}

function paramsOf(pattern: readonly string[], segments: readonly string[]): Record<string, string> {
  const named = pattern.flatMap((part, index) => {
    const name = placeIn(part);
    return name === undefined ? [] : [[name, decode(name, segments[index] ?? "")] as const];
  });
  return Object.fromEntries(named);
}

function decode(name: string, segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (cause) {
    throw invalid(`${name}: the path's percent-encoding is broken`, cause);
  }
}

/** A surface that is served beside REST: on its port, under its guard, within its limits. */
export interface Mount {
  /** What its paths begin with, such as `/v1/`. */
  readonly prefix: string;
  readonly routes: readonly Route[];
  /** How failures at its paths are worded, also those of the guard. */
  readonly answerFailure: AnswerFailure;
  /** Ends what it has open. */
  close?(): Promise<void>;
}

/** What a surface is handed where it is mounted; with each request comes the runtime as its caller may use it. */
export interface MountParts {
  readonly runtime: CallerRuntime;
  readonly realm: string;
  readonly clock: Clock;
  readonly log: (sentence: string) => void;
  readonly turns: TurnRequests;
}

export type OpenMount = (parts: MountParts) => Mount;
