import type { Command } from "commander";
import { RuntimeError } from "../../../contract/error.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

/** Declares `rkat blob`. */
export function addBlobCommand(program: Command, invocation: Invocation): void {
  const blob = holdCommands(program.command("blob"))
    .summary("read what is kept by reference")
    .description("Reads blobs, such as the full text of a tool output that was cut.");
  const get = blob
    .command("get")
    .summary("write a blob to stdout")
    .description("Writes the bytes of a blob to stdout.")
    .argument("<blob>")
    .usage("ID")
    .action((blobId: string) => writeBlob(invocation, blobId));
  describeHelp(get, { examples: [["rkat blob get sha256:… > output.txt", "all of what was cut"]] });
  describeHelp(blob, {
    examples: [["rkat blob get sha256:… > output.txt", "the id stands in the message that was cut"]],
  });
}

async function writeBlob(invocation: Invocation, blobId: string): Promise<void> {
  const { stdout } = invocation.io;
  await withSessions(invocation, async ({ runtime }) => {
    const { media_type: mediaType, data: base64 } = await runtime.dispatch("readBlob", { blob_id: blobId });
    const data = Buffer.from(base64, "base64");
    if (!stdout.isTerminal) return stdout.write(data);
    if (mediaType.startsWith("text/")) return stdout.write(withoutControls(new TextDecoder().decode(data)));
    throw new RuntimeError("INVALID_PARAMS", `${blobId} is ${mediaType}, which no terminal shows; write it to a file`);
  });
}
