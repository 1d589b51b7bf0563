import { expect, it } from "vitest";
import { settleResume } from "./run.ts";

const ID = "019a2b3c-4d5e-7abc-8def-0123456789ab";

it.each([
  ["hello", "hello"],
  ["run --resume go on", "run --resume=last go on"],
  ["--resume", "--resume=last"],
  ["--resume last go on", "--resume=last go on"],
  ["--resume ~2 go on", "--resume=~2 go on"],
  ["--resume 019a go on", "--resume=019a go on"],
  [`--resume ${ID} go on`, `--resume=${ID} go on`],
  [`--resume ws-a:${ID} go on`, `--resume=ws-a:${ID} go on`],
  ["--resume=abcd go on", "--resume=abcd go on"],
  ["--resume 2 more", "--resume=last 2 more"],
  ["--resume decade by decade", "--resume=last decade by decade"],
  ["-- --resume go on", "-- --resume go on"],
])("takes %s for %s", (typed, meant) => expect(settleResume(typed.split(" "))).toEqual(meant.split(" ")));
