import type { z } from "zod";
import { RuntimeError } from "../error.ts";

/** One sentence that names each wrong field and what it should be. */
export function invalidInput(error: z.ZodError): RuntimeError {
  const problems = error.issues.flatMap(problemsOf);
  const sentence = problems.map(({ field, problem }) => (field === "" ? problem : `${field}: ${problem}`)).join("; ");
  return new RuntimeError("INVALID_PARAMS", sentence, { details: { problems } });
}

function problemsOf(issue: z.core.$ZodIssue): readonly { readonly field: string; readonly problem: string }[] {
  // A schema that says more than the library does is listened to.
  const isUnnamed = issue.code === "unrecognized_keys" && issue.message.startsWith("Unrecognized key");
  if (!isUnnamed) return [{ field: issue.path.join("."), problem: issue.message }];
  return issue.keys.map((key) => ({
    field: [...issue.path, key].join("."),
    problem: "there is no such field; leave it out",
  }));
}
