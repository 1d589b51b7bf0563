import { z } from "zod";

const above0 = { error: "write a whole number above 0" };
const atLeast0 = { error: "write a whole number of at least 0" };

export const positive = z.int(above0).positive(above0);
export const nonnegative = z.int(atLeast0).nonnegative(atLeast0);
