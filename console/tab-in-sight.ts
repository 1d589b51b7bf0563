/** Aborts as soon as one looks at another tab. */
export function whenHidden(ending: AbortSignal): AbortSignal {
  const hidden = new AbortController();
  const look = (): void => {
    if (document.visibilityState === "hidden") hidden.abort("hidden");
  };
  document.addEventListener("visibilitychange", look, { signal: AbortSignal.any([ending, hidden.signal]) });
  look();
  return hidden.signal;
}

/** Resolves once this tab is looked at, or never will be again. */
export function untilSeen(signal: AbortSignal): Promise<void> {
  if (document.visibilityState !== "hidden") return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", () => resolve(), { once: true, signal });
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
