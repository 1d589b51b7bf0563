interface Bounds {
  readonly entriesMax: number;
  readonly charsMax?: number;
}

/** Reads a text once while it is said again and again. A flood of random texts, or of long ones, does not stay in memory. */
export function remembered<T>({ entriesMax, charsMax = 2 ** 31 }: Bounds, read: (text: string) => T) {
  const known = new Map<string, T>();
  return (text: string): T => {
    const found = known.get(text);
    if (found !== undefined) return found;
    const made = read(text);
    if (known.size >= entriesMax) known.clear();
    if (text.length <= charsMax) known.set(text, made);
    return made;
  };
}
