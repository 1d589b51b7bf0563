import { describe, expect, it } from "vitest";
import { parseIncoming } from "./incoming.ts";

const read = (text: string) => parseIncoming(Buffer.from(text));
const request = (id: string) => read(`{"jsonrpc":"2.0","id":${id},"method":"m"}`);
const fault = (id: string, code: string) => ({ kind: "fault", id, fault: { code, message: expect.any(String) } });

describe("[H1] a line", () => {
  it("is a request, a notification or an answer", () => {
    expect(read('{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}')).toEqual({
      kind: "request",
      id: "1",
      method: "m",
      params: { a: 1 },
    });
    expect(read('{"jsonrpc":"2.0","method":"m"}')).toEqual({ kind: "notification", method: "m", params: undefined });
    expect(read('{"id":"srv-1","result":{"content":"x"}}')).toEqual({
      kind: "response",
      id: "srv-1",
      answer: { result: { content: "x" } },
    });
    expect(read('{"id":"srv-1","error":{"message":"no"}}')).toEqual({
      kind: "response",
      id: "srv-1",
      answer: { error: { message: "no" } },
    });
    expect(read(" \r")).toBeUndefined();
  });

  it("that is not JSON, or not UTF-8, is a parse error", () => {
    for (const text of ["{", "hello", "{'a':1}", '{"a":1}{"b":2}', "\u0000"]) {
      expect(read(text)).toEqual(fault("null", "PARSE_ERROR"));
    }
    expect(parseIncoming(Uint8Array.of(0x22, 0xff, 0xfe, 0x22))).toEqual(fault("null", "PARSE_ERROR"));
  });

  it("that is no request is invalid, under its id where it has one", () => {
    for (const text of ["[]", '[{"jsonrpc":"2.0","id":1,"method":"m"}]', "1", "null", '"x"', "{}"]) {
      expect(read(text)).toEqual(fault("null", "INVALID_REQUEST"));
    }
    expect(read('{"id":1,"method":"m"}')).toEqual(fault("1", "INVALID_REQUEST"));
    expect(read('{"jsonrpc":"1.0","id":1,"method":"m"}')).toEqual(fault("1", "INVALID_REQUEST"));
    expect(read('{"jsonrpc":"2.0","id":1,"method":5}')).toEqual(fault("1", "INVALID_REQUEST"));
    expect(read('{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}')).toEqual(fault("1", "INVALID_REQUEST"));
    for (const id of ["true", "{}", "[1]"]) expect(request(id)).toEqual(fault("null", "INVALID_REQUEST"));
  });

  it("[H5] of very many values is refused before they are made, and marks in a text do not count", () => {
    const holding = (inner: string) => `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[${inner}]}}`;
    const many = `${"[],".repeat(300_000)}[]`;
    expect(read(holding(many))).toEqual(fault("1", "INVALID_PARAMS"));
    expect(read(` ${holding(many)}`)).toEqual(fault("null", "PARSE_ERROR"));
    expect(read(holding(JSON.stringify(many)))).toMatchObject({ kind: "request" });
  });

  it("[H5] nested too deeply is refused, and brackets in a text do not count", () => {
    const nested = (depth: number) =>
      `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":${"[".repeat(depth)}${"]".repeat(depth)}}}`;
    expect(read(nested(126))).toMatchObject({ kind: "request" });
    expect(read(nested(127))).toEqual(fault("1", "INVALID_PARAMS"));
    expect(read(nested(1_000_000))).toEqual(fault("1", "INVALID_PARAMS"));
    expect(read(`{"jsonrpc":"2.0","id":1,"method":"\\\\\\"${"[".repeat(500)}"}`)).toMatchObject({ kind: "request" });
  });
});

describe("the id of a request", () => {
  it("is echoed as it was written, whatever its size", () => {
    expect(request("7")).toMatchObject({ id: "7" });
    expect(request("-1")).toMatchObject({ id: "-1" });
    expect(request('"7"')).toMatchObject({ id: '"7"' });
    expect(request('"\\ud800 \\u00e9"')).toMatchObject({ id: '"\\ud800 é"' });
    expect(request("9007199254740993")).toMatchObject({ id: "9007199254740993" });
    expect(request("1e400")).toMatchObject({ id: "1e400" });
    expect(request("0.10")).toMatchObject({ id: "0.10" });
    expect(request("null")).toMatchObject({ kind: "request", id: "null" });
  });

  it("is the request's own, not one in its params", () => {
    const line = '{"params":{"id":1},"jsonrpc":"2.0","id":9007199254740993,"method":"m","x":{"id":9007199254740995}}';
    expect(read(line)).toMatchObject({ id: "9007199254740993" });
  });
});
