import { describeHistories } from "./grammar-histories.ts";

describeHistories(0);
describeHistories(1);
