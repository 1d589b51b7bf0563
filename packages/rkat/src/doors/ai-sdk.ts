export * from "@rkat/core/ai-sdk";
