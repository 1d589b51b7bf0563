const WINDOW_SHARE_MAX = 0.5;

/** An answer may take at most half of a window: servers refuse a limit that leaves no room for the question. */
export function outputLimit(maxTokens: number | undefined, contextWindow: number | undefined): number | undefined {
  if (maxTokens === undefined || contextWindow === undefined) return maxTokens;
  return Math.max(1, Math.min(maxTokens, Math.floor(contextWindow * WINDOW_SHARE_MAX)));
}
