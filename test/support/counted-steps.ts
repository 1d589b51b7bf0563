/** Counts the signs that searches of text look at while a function runs: regular expressions and `indexOf`, `lastIndexOf`, `includes`. */
export function countSteps(run: () => unknown): number {
  let steps = 0;
  const { exec } = RegExp.prototype;
  const { indexOf, lastIndexOf, includes } = String.prototype;
  // Every method that takes an expression calls `exec` where it is not the built-in one.
  RegExp.prototype.exec = function counted(this: RegExp, text: string) {
    const isFromLast = this.global || this.sticky;
    const from = isFromLast ? this.lastIndex : 0;
    const match = Reflect.apply(exec, this, [text]);
    const isAtOnce = this.sticky || (this.source.startsWith("^") && !this.source.includes("|") && !this.multiline);
    const end = match === null ? (isAtOnce ? from : text.length) : match.index + match[0].length;
    steps += 1 + Math.max(0, end - from);
    return match;
  };
  const looking =
    (find: (this: string, piece: string, at?: number) => number) =>
    (text: string, ...given: [string, number?]): number => {
      const found = Reflect.apply(find, text, given);
      const from = given[1] ?? (find === lastIndexOf ? text.length : 0);
      const to = found >= 0 ? found : find === lastIndexOf ? 0 : text.length;
      steps += 1 + Math.abs(to - from);
      return found;
    };
  const [first, last] = [looking(indexOf), looking(lastIndexOf)];
  String.prototype.indexOf = function counted(...given) {
    return first(String(this), ...given);
  };
  String.prototype.lastIndexOf = function counted(...given) {
    return last(String(this), ...given);
  };
  String.prototype.includes = function counted(...given) {
    return first(String(this), ...given) >= 0;
  };
  try {
    run();
  } finally {
    RegExp.prototype.exec = exec;
    Object.assign(String.prototype, { indexOf, lastIndexOf, includes });
  }
  return steps;
}
