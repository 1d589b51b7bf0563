import { describe, it } from "vitest";
import { expectHarmless, seed, TIMEOUT_MS } from "./expect-harmless.ts";
import { attackMcpHttp } from "./mcp-http.ts";
import { attackOpenAi } from "./openai.ts";
import { attackRest } from "./rest.ts";
import { attackUiChat } from "./ui-chat.ts";

describe(`requests with something wrong in them, seed ${seed}`, () => {
  it(
    "[G3] [H1] [H5] REST answers each as it should or closes, keeps nothing and goes on",
    () => expectHarmless(attackRest),
    TIMEOUT_MS,
  );

  it(
    "[K1] [H1] [H5] OpenAI's endpoints answer each as they should or close, keep nothing and go on",
    () => expectHarmless(attackOpenAi),
    TIMEOUT_MS,
  );

  it(
    "[K1] [H1] [H5] chats of pages answer each as they should or close, keep nothing and go on",
    () => expectHarmless(attackUiChat),
    TIMEOUT_MS,
  );

  it(
    "[G4] [H1] [H5] MCP answers each as it should or closes, keeps nothing and goes on",
    () => expectHarmless(attackMcpHttp),
    TIMEOUT_MS,
  );
});
