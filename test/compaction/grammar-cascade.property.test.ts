import { describeCascadeHistories } from "./grammar-histories.ts";

describeCascadeHistories();
