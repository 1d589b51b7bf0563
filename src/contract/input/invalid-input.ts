import type { z } from "zod";
import { RuntimeError } from "../error.ts";

/** One sentence that names each wrong field and what it should be. */
export function invalidInput(error: z.ZodError): RuntimeError {
  const problems = error.issues.map((issue) => ({ field: issue.path.join("."), problem: issue.message }));
  const sentence = problems.map(({ field, problem }) => (field === "" ? problem : `${field}: ${problem}`)).join("; ");
  return new RuntimeError("INVALID_PARAMS", sentence, { details: { problems } });
}
