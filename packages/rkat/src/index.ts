export * from "@rkat/node";
