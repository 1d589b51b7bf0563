import fc from "fast-check";
import { testSeed } from "./seed.ts";

fc.configureGlobal({ seed: testSeed() });

/** fast-check with the seed of this run; the tidy test refuses the import of the package elsewhere. */
export { fc };
