import { describe, expect, it } from "vitest";
import { abortFailure, classifyFailure } from "./model-failure.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const context = { provider: "acme", secrets: ["hunter2-hunter2"], now: () => NOW };

function refused(statusCode: number, body: unknown, responseHeaders: Record<string, string> = {}): Error {
  const responseBody = typeof body === "string" ? body : JSON.stringify(body);
  return Object.assign(new Error("Refused"), { name: "AI_APICallError", statusCode, responseBody, responseHeaders });
}

describe("model failure", () => {
  it.each([
    [429, { error: { type: "rate_limit_error", message: "slow" } }, "rate_limited"],
    [429, { error: { code: "insufficient_quota", message: "You exceeded your current quota" } }, "invalid_request"],
    [529, { error: { type: "overloaded_error", message: "Overloaded" } }, "overloaded"],
    [503, "", "overloaded"],
    [500, "<html>oops</html>", "server_error"],
    [502, "", "server_error"],
    [408, "", "server_error"],
    [409, "", "server_error"],
    [401, "", "auth"],
    [403, { error: { status: "PERMISSION_DENIED", message: "no" } }, "auth"],
    [400, { error: { status: "INVALID_ARGUMENT", message: "API key not valid." } }, "auth"],
    [404, { error: { message: "no such model" } }, "model_not_found"],
    [400, { error: { message: "prompt is too long: 300000 tokens > 200000 maximum" } }, "context_exceeded"],
    [400, { error: { code: "context_length_exceeded", message: "too big" } }, "context_exceeded"],
    [400, { error: { message: "The input token count (9) exceeds the maximum number of tokens" } }, "context_exceeded"],
    [500, { error: "the request exceeds the available context size" }, "context_exceeded"],
    [413, "", "context_exceeded"],
    [400, { error: { code: "content_filter", message: "filtered" } }, "content_filtered"],
    [400, { error: { message: "temperature must be below 2" } }, "invalid_request"],
    [422, "", "invalid_request"],
  ])("[B5] a response of %i with %j is %s", (status, body, kind) => {
    expect(classifyFailure(refused(status, body), context)).toMatchObject({ kind, status });
  });

  it.each([
    [{ type: "error", error: { type: "overloaded_error", message: "Overloaded" } }, "overloaded"],
    [{ type: "api_error", message: "Internal server error" }, "server_error"],
    [{ error: { code: "rate_limit_exceeded", type: "tokens", message: "slow" } }, "rate_limited"],
    [{ error: { code: 503, status: "UNAVAILABLE", message: "busy" } }, "overloaded"],
    [{ error: { code: 429, status: "RESOURCE_EXHAUSTED", message: "quota" } }, "rate_limited"],
    [{ error: { type: "invalid_request_error", message: "maximum context length is 10" } }, "context_exceeded"],
    [{ message: "odd" }, "unknown"],
    ["just text", "unknown"],
    [undefined, "unknown"],
  ])("[B5] an error inside a stream, %j, is %s", (error, kind) => {
    expect(classifyFailure(error, context).kind).toBe(kind);
  });

  it.each([
    [new TypeError("fetch failed", { cause: Object.assign(new Error("no"), { code: "ECONNREFUSED" }) }), "network"],
    [new TypeError("terminated", { cause: Object.assign(new Error("x"), { code: "UND_ERR_SOCKET" }) }), "network"],
    [Object.assign(new Error("getaddrinfo"), { code: "ENOTFOUND" }), "network"],
    [new DOMException("timed out", "TimeoutError"), "call_timeout"],
    [new SyntaxError("Unexpected end of JSON input"), "malformed_stream"],
    [Object.assign(new Error("bad"), { name: "AI_TypeValidationError" }), "malformed_stream"],
    [Object.assign(new Error("no video"), { name: "AI_UnsupportedFunctionalityError" }), "invalid_request"],
    [Object.assign(new Error("reset"), { statusCode: 200, cause: { code: "ECONNRESET" } }), "network"],
    [new Error("who knows"), "unknown"],
  ])("[B5] a thrown %s is %s", (error, kind) => {
    expect(classifyFailure(error, context).kind).toBe(kind);
  });

  it.each([
    [{ "retry-after": "3" }, 3_000],
    [{ "retry-after": "0.25" }, 250],
    [{ "retry-after": "Thu, 01 Jan 2026 00:00:20 GMT" }, 20_000],
    [{ "retry-after": "Wed, 31 Dec 2025 00:00:00 GMT" }, 0],
    [{ "retry-after": "3", "retry-after-ms": "1500" }, 1_500],
    [{ "retry-after": "soon" }, undefined],
    [{}, undefined],
  ])("[B4] headers %j ask for a wait of %s ms", (headers, wait) => {
    expect(classifyFailure(refused(429, "", headers), context).retryAfterMs).toBe(wait);
  });

  it("[B4] Gemini's RetryInfo asks for a wait too", () => {
    const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "38s" }];
    const body = { error: { code: 429, status: "RESOURCE_EXHAUSTED", message: "quota", details } };
    expect(classifyFailure(refused(429, body), context).retryAfterMs).toBe(38_000);
  });

  it("[A7] a message is one bounded sentence without any key", () => {
    const message = `bad key sk-proj-abcdefghijkl, hunter2-hunter2,\n Bearer abc.def ?key=AIzaSyA1234567890 ${"x".repeat(900)}`;
    const failure = classifyFailure(refused(401, { error: { message } }), context);
    expect(failure.message).toMatch(
      /^acme refused the API key \(401\): bad key \[redacted\], \[redacted\], Bearer \[redacted\]/,
    );
    expect(failure.message).not.toMatch(/abcdefghijkl|hunter2|abc\.def|AIza|\n/);
    expect(failure.message).toHaveLength(500);
  });

  it.each([
    ["out of memory on gpu 0", "acme failed (500): out of memory on gpu 0"],
    [{ detail: "no such adapter" }, "acme failed (500): no such adapter"],
    [
      { detail: [{ loc: ["body", "top_k"], msg: "field required" }, { msg: "too low" }] },
      "acme failed (500): field required; too low",
    ],
    [{ detail: { error: { message: "cuda" } } }, "acme failed (500): cuda"],
    [{ status: "sorry" }, 'acme failed (500): {"status":"sorry"}'],
    ["<html><body>Bad gateway</body></html>", "acme failed (500): Refused"],
    ["  ", "acme failed (500): Refused"],
  ])("[A7] a refusal shows what the server said, here %j", (body, message) => {
    expect(classifyFailure(refused(500, body), context).message).toBe(message);
  });

  it("[A7] what the server said in plain text is bounded, and shows no key", () => {
    const { message } = classifyFailure(refused(500, `hunter2-hunter2 ${"x".repeat(60_000)}`), context);
    expect(message).toMatch(/^acme failed \(500\): \[redacted\] x+…$/);
    expect(message).toHaveLength(500);
  });

  it("[A7] a key that was never sent is not said to be refused", () => {
    expect(classifyFailure(refused(401, "no"), { ...context, isKeyless: true }).message).toBe(
      "acme requires an API key, and none was sent (401): no",
    );
  });

  it("[B5] a caller's timeout is told from its cancel", () => {
    expect(abortFailure(AbortSignal.abort()).kind).toBe("unknown");
    expect(abortFailure(AbortSignal.abort(new DOMException("late", "TimeoutError"))).kind).toBe("call_timeout");
  });
});
