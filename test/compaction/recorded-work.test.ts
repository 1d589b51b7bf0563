import { describeRecordedWork } from "./recorded-work.ts";

describeRecordedWork(3, 6);
