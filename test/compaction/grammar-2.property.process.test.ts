import { describeHistories, describeWordyHistories } from "./grammar-histories.ts";

describeHistories(2);
describeHistories(3);
describeWordyHistories();
