/**
 * Every match of a global expression. `matchAll` copies the expression for each text, which for short texts takes
 * longer than matching.
 */
export function matchesOf(form: RegExp, text: string): RegExpExecArray[] {
  const found: RegExpExecArray[] = [];
  form.lastIndex = 0;
  for (let match = form.exec(text); match !== null; match = form.exec(text)) {
    found.push(match);
    // An empty match would repeat forever.
    if (match[0] === "") form.lastIndex += 1;
  }
  return found;
}
