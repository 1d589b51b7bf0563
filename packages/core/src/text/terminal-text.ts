/**
 * Text without what could steer a terminal, or make it show something else than is there: a model or a tool must not
 * move the cursor, rename the window, or turn a command around. Joiners and the marks of a direction stay, since words
 * of some languages are wrong without them; they turn no other word.
 */
export function withoutControls(text: string): string {
  return UNSAFE.test(text) ? text.replace(UNSAFE_ALL, safe) : text;
}

/**
 * Controls; breaks of lines that only some know; directions that are forced on a text; signs without a look, of which
 * a language could be hidden; more than one choice of a look for one sign; halves of a sign.
 */
const UNSAFE_SIGNS =
  "[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f]|[\\u2028\\u2029]|[\\u202a-\\u202e\\u2066-\\u2069]|[\\u206a-\\u206f\\ufeff\\ufff9-\\ufffb]|\\udb40[\\udc00-\\udc7f]|(?:[\\ufe00-\\ufe0f]|\\udb40[\\udd00-\\uddef]){2,}|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]";
const UNSAFE = new RegExp(UNSAFE_SIGNS);
const UNSAFE_ALL = new RegExp(UNSAFE_SIGNS, "g");

function safe(found: string): string {
  const code = found.charCodeAt(0);
  if (code === 0x2028 || code === 0x2029) return " ";
  // Who reads a command sees that something was turned in it.
  if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069))
    return `‹U+${code.toString(16).toUpperCase()}›`;
  if (code >= 0xfe00 && code <= 0xfe0f) return found[0] ?? "";
  if (code === 0xdb40 && found.length > 1) return found.charCodeAt(1) >= 0xdd00 ? found.slice(0, 2) : "";
  return code >= 0xd800 && code <= 0xdfff ? "\ufffd" : "";
}
