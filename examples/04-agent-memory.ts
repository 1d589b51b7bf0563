// An agent that lives for months: its newest memories word for word, a summary of those before, and one of all the rest.
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assembleAgentPrompt, openRuntime } from "rkat";

const stateFolder = await mkdtemp(join(tmpdir(), "rkat-agent-"));
const open = () => openRuntime({ stateFolder, model: "offline", log: (line) => console.log(line) });

// A life: compacted at 129 memories, then every 64, behind the memory that made it due.
const first = await open();
const ada = first.agent("ada");
await ada.remember("On my first day Mara gave me the brass key to the north greenhouse.", { place: "north gate" });
for (let day = 2; day <= 200; day += 1) await ada.remember(`Day ${day}: I watered row ${day % 12} and saw the heron.`);
await ada.note("Mara locks the greenhouse at dusk.", "Greenhouse");
await first.close(); // Waits for a compaction that runs.

// Another process. What the agent is shown is bounded, and nothing is in no tier.
const second = await open();
const { recentRange: recent_range, longtermRange: longterm_range, count } = await second.agent("ada").status();
assert.deepEqual(
  [longterm_range, recent_range, count],
  [{ from_seq: 1, to_seq: 65 }, { from_seq: 66, to_seq: 129 }, 200],
);
const {
  immediate,
  prompt,
  longtermSummary: longterm_summary,
  recentSummary: recent_summary,
} = await second.agent("ada").context();
assert.equal(immediate[0]?.seq, 130);
assert(prompt.startsWith("You are ada.") && prompt.includes("## Older Memories (Summary)"));

// The same prompt, with what only the caller knows.
const situated = assembleAgentPrompt({
  name: "ada",
  profile: "A gardener who counts birds.",
  commands: ["look", "go EXIT"],
  longtermSummary: longterm_summary,
  recentSummary: recent_summary,
  immediate: immediate.map(({ content }) => content),
  situation: "You are ada in the North Greenhouse. It is dusk.\nExits: gate",
});
assert(situated.endsWith("~ada>"));

// Whatever a summary leaves out is found again.
const { results } = await second.agent("ada").recall("who gave me the key?");
console.log(results[0]?.content);
assert.equal(results[0]?.turn, 1);

// Files a person can read, and add to.
console.log(await readdir(join(stateFolder, ".rkat", "agents", "ada", "summaries")));
await second.close();
await rm(stateFolder, { recursive: true });
