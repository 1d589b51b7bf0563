// Lives a life in a state folder and tells what was kept. It has ended when its files are damaged: a lease of a process
// that still runs would be held for good where an earlier state of the leases comes back.
import { emptyKept, emptyReport, live } from "./life.ts";

const [folder = ""] = process.argv.slice(2);
const [kept, reported] = [emptyKept(), emptyReport()];
await live(folder, { kept, reported, mend: () => {} });
process.stdout.write(JSON.stringify({ kept, wrong: reported.wrong }));
