/**
 * Every match of a global expression. `matchAll` makes a new expression for each text, which on the short texts of a
 * conversation takes longer than reading them.
 */
export function matchesOf(form: RegExp, text: string): RegExpExecArray[] {
  const found: RegExpExecArray[] = [];
  form.lastIndex = 0;
  for (let match = form.exec(text); match !== null; match = form.exec(text)) {
    found.push(match);
    // An empty match would be found again.
    if (match[0] === "") form.lastIndex += 1;
  }
  return found;
}
