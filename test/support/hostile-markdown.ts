const RUN = "window.evil=1";

/** Addresses that must not become links, images or requests. */
const ADDRESSES = [
  `javascript:${RUN}`,
  `JaVaScRiPt:${RUN}`,
  `java\tscript:${RUN}`,
  `java&#10;script:${RUN}`,
  `&#106;avascript:${RUN}`,
  `&#x6A&#x61&#x76ascript:${RUN}`,
  `\u0001javascript:${RUN}`,
  `vbscript:msgbox(1)`,
  `data:text/html,<script>${RUN}</script>`,
  `data:text/html;base64,PHNjcmlwdD5ldmlsPTE8L3NjcmlwdD4=`,
  `data:image/svg+xml,<svg onload="${RUN}">`,
  `data:image/png;base64,AAAA" onerror="${RUN}`,
  "//evil.example/a.png",
  "https://evil.example/a.png",
  "http://evil.example/?q=<script>",
  "https:evil.example",
  "file:///etc/passwd",
  "blob:https://evil.example/1",
  "filesystem:http://evil.example/",
  "\\\\evil.example\\share",
  "/sessions",
  "#/server",
  "?a=b",
  "mailto:a@evil.example?body=<b>",
  "https://evil.example\u202egpj.exe",
  "https://user:pass@evil.example/",
  "https://xn--80ak6aa92e.com/",
];

/** Markup of HTML that must stay text. */
const MARKUP = [
  `<script>${RUN}</script>`,
  `<img src=x onerror=${RUN}>`,
  `<img src="https://evil.example/a.png">`,
  `<svg/onload=${RUN}>`,
  `<iframe src="javascript:${RUN}"></iframe>`,
  `<a href="javascript:${RUN}">a</a>`,
  `<style>@import "https://evil.example/a.css";</style>`,
  `<link rel=stylesheet href=https://evil.example/a.css>`,
  `<base href="https://evil.example/">`,
  `<meta http-equiv=refresh content="0;url=https://evil.example">`,
  `<form action="https://evil.example"><input autofocus onfocus=${RUN}></form>`,
  `<video><source onerror=${RUN}></video>`,
  `<math><mtext></mtext><script>${RUN}</script></math>`,
  `<!--<script>-->${RUN}<!--</script>-->`,
  `<![CDATA[<script>${RUN}</script>]]>`,
  `<details open ontoggle=${RUN}>`,
  `<div style="background:url(https://evil.example/a.png)">`,
  `<object data="https://evil.example/a.swf"></object>`,
  `<${"b".repeat(2_000)} onclick=${RUN}>`,
  `&lt;script&gt;${RUN}&lt;/script&gt;`,
];

const BEHIND_ADDRESS: readonly ((address: string) => string)[] = [
  (address) => `[click](${address})`,
  (address) => `![picture](${address})`,
  (address) => `<${address}>`,
  (address) => `[click](<${address}> "title")`,
  (address) => `[![inner](${address})](${address})`,
  (address) => `[a]: ${address}\n\n[a] ![a] [text][a]`,
  (address) => `see ${address} there`,
  (address) => `| a |\n| - |\n| [x](${address}) |`,
  (address) => `> - 1. [x](${address})\n>   ![y](${address})`,
  (address) => `# [x](${address})`,
];

const AROUND_MARKUP: readonly ((markup: string) => string)[] = [
  (markup) => markup,
  (markup) => `text ${markup} text`,
  (markup) => `\`\`\`html\n${markup}\n\`\`\``,
  (markup) => `\`\`\`${markup}\nunclosed`,
  (markup) => `> ${markup}\n> ${markup}`,
  (markup) => `[${markup}](https://evil.example/ "${markup.replaceAll('"', "'")}")`,
  (markup) => `![${markup}](https://evil.example/a.png)`,
  (markup) => `| ${markup} | b |\n|---|---|\n| c | ${markup} |`,
  (markup) => `**${markup}** _${markup}_ \`${markup}\``,
];

/** Texts that cost a careless parser time or its stack. */
const LARGE = [
  ">".repeat(5_000),
  "- ".repeat(2_000),
  `${"> ".repeat(500)}deep`,
  "[".repeat(10_000),
  "![".repeat(5_000),
  "*a ".repeat(5_000),
  "**_".repeat(4_000),
  "`".repeat(9_999),
  "[a](".repeat(4_000),
  "<a ".repeat(5_000),
  "&".repeat(10_000),
  `|${"a|".repeat(200)}\n|${"-|".repeat(200)}\n${`|${"b|".repeat(200)}\n`.repeat(40)}`,
  "```\n".repeat(2_001),
  Array.from({ length: 200 }, (_, depth) => `${" ".repeat(depth * 2)}- item`).join("\n"),
  "\u202e\u2066".repeat(2_000),
  "\ud800".repeat(500),
  "http://a.".repeat(2_000),
  "\\".repeat(9_999),
  `a${" ".repeat(20_000)}b`,
  "\u200b\ufeff\u{e0041}".repeat(1_000),
];

/** So many hostile texts: every one of the lists above alone and in each of its places, then pairs of them. */
export function hostileMarkdown(count: number): readonly string[] {
  const single = [
    ...ADDRESSES.flatMap((address) => BEHIND_ADDRESS.map((place) => place(address))),
    ...MARKUP.flatMap((markup) => AROUND_MARKUP.map((place) => place(markup))),
    ...LARGE,
  ];
  const paired = Array.from({ length: Math.max(0, count - single.length) }, (_, index) => {
    const [one = "", other = ""] = [single[(index * 7) % single.length], single[(index * 13 + 5) % single.length]];
    return `${one}\n\n${other}\n${one}`;
  });
  return [...single, ...paired].slice(0, count);
}
