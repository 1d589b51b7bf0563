import { describeRecordedWork } from "./recorded-work.ts";

describeRecordedWork(10, 100);
