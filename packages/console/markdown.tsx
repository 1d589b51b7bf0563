import { withoutControls } from "@rkat/core/text/terminal-text";
import MarkdownIt, { type Token } from "markdown-it";
import { type ComponentChildren, h, type JSX } from "preact";
import { useRef } from "preact/hooks";
import { Code } from "./code.tsx";

/** Blocks in more containers than this are shown as their source; the parser would drop their content. */
const NESTING_MAX = 20;
/** A last block of a streaming text that is longer than this is shown as its source. */
const LIVE_CHARS_MAX = 20_000;

const parser = new MarkdownIt({ html: false, linkify: true, maxNesting: NESTING_MAX });
// A reference definition would be hidden, and would let later text change earlier blocks.
parser.disable("reference");
// Only what begins with a scheme is a link: `main.rs` is a file.
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
parser.validateLink = (url) => LINK.test(url) || IMAGE.test(url);

const LINK = /^(?:https?:\/\/|mailto:)/i;
/** Images in the text itself, in formats that cannot contain scripts. */
const IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,[a-z0-9+/=]+$/i;

interface Parsed {
  readonly whole: string;
  readonly isLive: boolean;
  readonly blocks: readonly JSX.Element[];
  /** The source of the blocks that further text cannot change, and how many they are. */
  readonly settled: { readonly source: string; readonly count: number };
}
const NOTHING: Parsed = { whole: "", isLive: true, blocks: [], settled: { source: "", count: 0 } };

/** Markdown as elements. Raw HTML in it is text. A text that only grows is parsed from its last block on. */
export function Markdown({ text, isLive = false }: { text: string; isLive?: boolean }): JSX.Element {
  const parsed = useRef(NOTHING);
  const whole = withoutControls(text);
  const { current } = parsed;
  if (whole !== current.whole || isLive !== current.isLive) parsed.current = parse(whole, isLive, current);
  return <div class="markdown">{parsed.current.blocks}</div>;
}

function parse(whole: string, isLive: boolean, before: Parsed): Parsed {
  const { settled, blocks } = isLive && whole.startsWith(before.settled.source) ? before : NOTHING;
  const kept = blocks.slice(0, settled.count);
  const rest = whole.slice(settled.source.length);
  if (isLive && rest.length > LIVE_CHARS_MAX) {
    return { whole, isLive, settled, blocks: [...kept, <PlainBlock key={kept.length} text={rest} />] };
  }
  const found = blocksOf(rest);
  const offsets = lineOffsets(rest);
  const sourceOf = ([first, end]: [number, number]): string => rest.slice(offsets[first], offsets[end]);
  const made = found.map(({ tokens, line, end }, index) => {
    const key = kept.length + index;
    const isTooDeep = tokens.some(({ level, nesting }) => nesting === 1 && level >= NESTING_MAX - 1);
    if (isTooDeep || hidesCells(tokens, sourceOf)) return <PlainBlock key={key} text={sourceOf([line, end])} />;
    return <div key={key}>{nodesOf(tokens, isLive && index === found.length - 1)}</div>;
  });
  const source = settled.source + rest.slice(0, offsets[found.at(-1)?.line ?? 0]);
  const count = kept.length + Math.max(0, made.length - 1);
  return { whole, isLive, blocks: [...kept, ...made], settled: { source, count } };
}

function PlainBlock({ text }: { text: string }): JSX.Element {
  return <div class="text">{text}</div>;
}

/** Whether a table has cells beyond its columns, which the parser leaves out. */
function hidesCells(tokens: readonly Token[], sourceOf: (lines: [number, number]) => string): boolean {
  let cells = "";
  let lines: Token["map"] = null;
  for (const { type, map, content } of tokens) {
    if (type === "table_open") {
      cells = "";
      lines = map;
    } else if (type === "inline") cells += content;
    else if (type === "table_close" && lines !== null && withoutMarks(cells) !== withoutMarks(sourceOf(lines)))
      return true;
  }
  return false;
}

function withoutMarks(text: string): string {
  return text.replace(/[\s|\\:>*+-]+/g, "");
}

interface Block {
  readonly line: number;
  readonly end: number;
  readonly tokens: Token[];
}

/** The top-level blocks of a text, with their lines. */
function blocksOf(text: string): readonly Block[] {
  const blocks: Block[] = [];
  for (const token of parser.parse(text, {})) {
    const isStart = token.level === 0 && token.nesting !== -1;
    if (isStart) blocks.push({ line: token.map?.[0] ?? 0, end: token.map?.[1] ?? 0, tokens: [token] });
    else blocks.at(-1)?.tokens.push(token);
  }
  return blocks;
}

function lineOffsets(text: string): readonly number[] {
  const offsets = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) offsets.push(at + 1);
  return [...offsets, text.length];
}

/** The elements of tokens, without recursion over containers: their depth is the text's. */
function nodesOf(tokens: readonly Token[], isGrowing: boolean): ComponentChildren[] {
  const stack: { readonly open: Token | undefined; readonly children: ComponentChildren[] }[] = [];
  let children: ComponentChildren[] = [];
  stack.push({ open: undefined, children });
  for (const token of tokens) {
    if (token.nesting === 1) {
      children = [];
      stack.push({ open: token, children });
    } else if (token.nesting === -1 && stack.length > 1) {
      const closed = stack.pop();
      children = stack.at(-1)?.children ?? [];
      if (closed?.open !== undefined) children.push(elementOf(closed.open, closed.children));
    } else children.push(leafOf(token, isGrowing));
  }
  return stack[0]?.children ?? [];
}

const ELEMENTS: ReadonlySet<string> = new Set("p ul ol li blockquote em strong s thead tbody tr th td".split(" "));

function elementOf(token: Token, children: ComponentChildren[]): ComponentChildren {
  const { tag, hidden } = token;
  if (hidden) return children;
  if (tag === "a") return <Link href={String(token.attrGet("href") ?? "")}>{children}</Link>;
  // The page itself has the headings of the first two levels.
  if (/^h[1-6]$/.test(tag)) return h(`h${Math.min(6, Number(tag[1]) + 2)}`, null, children);
  if (tag === "table") {
    return (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
      <section class="scroll-x" aria-label="Table" tabIndex={0}>
        <table>{children}</table>
      </section>
    );
  }
  if (!ELEMENTS.has(tag)) return children;
  const [, textAlign] = /^text-align:(\w+)$/.exec(String(token.attrGet("style") ?? "")) ?? [];
  const start = tag === "ol" ? token.attrGet("start") : null;
  const props = { ...(textAlign === undefined ? {} : { style: { textAlign } }), ...(start === null ? {} : { start }) };
  return h(tag, props, children);
}

function leafOf(token: Token, isGrowing: boolean): ComponentChildren {
  const { type, content } = token;
  switch (type) {
    case "inline":
      return nodesOf(token.children ?? [], isGrowing);
    case "softbreak":
    case "hardbreak":
      return <br />;
    case "hr":
      return <hr />;
    case "code_inline":
      return <code>{content}</code>;
    case "fence":
    case "code_block": {
      const [language = ""] = token.info.trim().split(/[\s{,:]/, 1);
      const code = content.replace(/\n$/, "");
      return isGrowing ? <pre class="text">{code}</pre> : <Code text={code} language={language} />;
    }
    case "image":
      return <Image src={String(token.attrGet("src") ?? "")} alt={content} />;
    default:
      // An entity may stand for a character that the source does not contain.
      return withoutControls(content);
  }
}

/** A link to elsewhere. Its host is shown unless its text begins with it, since the text may say another one. */
export function Link({ href, children }: { href: string; children: ComponentChildren }): JSX.Element {
  if (!LINK.test(href)) return <>{children}</>;
  const host = URL.canParse(href) ? new URL(href).host : "";
  const [, named = ""] = /^(?:https?:\/\/)?([^/?#]*)/i.exec(String(children)) ?? [];
  const isNamed = host === "" || named.toLowerCase() === host;
  return (
    <>
      <a href={href} title={href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
      {!isNamed && <span class="soft"> ({host})</span>}
    </>
  );
}

/** Only images in the text itself are shown: a request would tell another server that the text is being read. */
function Image({ src, alt }: { src: string; alt: string }): JSX.Element {
  const name = withoutControls(alt) || "image";
  if (IMAGE.test(src)) return <img class="message-image" src={src} alt={name} />;
  return <Link href={src}>Image: {name}</Link>;
}
