import type { Config, loadConfig } from "../../config.ts";
import type { ModelClient, ModelFailure, ModelRequest } from "../../ports/model.ts";
import type { Runtime, RuntimeOptions } from "../../runtime.ts";
import type { Io } from "./io.ts";

/** One call of the command line. */
export interface Invocation {
  readonly io: Io;
  readonly parts: Parts;
  exitWith(code: number): void;
}

/** What the door composes for the command line; each part is loaded when it is first asked for. */
export interface Parts {
  readonly loadConfig: typeof loadConfig;
  createRuntime(options: RuntimeOptions): Promise<Runtime>;
  inspectModels(config: Config): Promise<ModelOutlook>;
  createScriptedModel(script: (request: ModelRequest, index: number) => ScriptedAnswer): Promise<ModelClient>;
}

/** Which models could answer as things are. It never holds a key. */
export interface ModelOutlook {
  readonly providers: readonly {
    readonly provider: string;
    readonly keyVariable: string;
    readonly hasKey: boolean;
    readonly baseUrl: string;
  }[];
  /** Finds the model that is used when nobody names one; throws, in one sentence, when there is none. */
  chooseDefault(): Promise<{ readonly provider: string; readonly modelId: string }>;
}

/** One answer of a scripted model. */
interface ScriptedAnswer {
  readonly text?: string | readonly string[];
  readonly calls?: readonly { readonly name: string; readonly args?: Record<string, unknown> }[];
  readonly ends?: { readonly failure: ModelFailure };
}
