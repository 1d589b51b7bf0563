import { useSignal } from "@preact/signals";
import type { Content } from "@rkat/core/contract/message";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { JSX } from "preact";
import { Code } from "./code.tsx";
import { formatCount, formatSize } from "./format.ts";
import { Link, Markdown } from "./markdown.tsx";
import { Action } from "./parts.tsx";
import { client } from "./server.ts";

/** A page that renders a megabyte of text is slow. */
const CHARS_MAX = 20_000;
const BLOB = /the full output is blob ([\w:-]{1,200}) …\]/;

/** Plain text. Markup in it is shown, not interpreted, and so are characters that would hide or reverse text. */
export function LongText({ text, isCode = false }: { text: string; isCode?: boolean }): JSX.Element {
  return (
    <Shortened text={text}>
      {(shown) => (isCode ? <Code text={withoutControls(shown)} /> : <div class="text">{withoutControls(shown)}</div>)}
    </Shortened>
  );
}

/** Text of a model, which writes Markdown. */
export function MarkdownText({ text }: { text: string }): JSX.Element {
  return <Shortened text={text}>{(shown) => <Markdown text={shown} />}</Shortened>;
}

function Shortened({ text, children }: { text: string; children: (shown: string) => JSX.Element }): JSX.Element {
  const isWhole = useSignal(false);
  const shown = isWhole.value ? text : text.slice(0, CHARS_MAX);
  const blob = BLOB.exec(text)?.[1];
  return (
    <>
      {children(shown)}
      {shown.length < text.length && (
        <button
          type="button"
          onClick={() => {
            isWhole.value = true;
          }}
        >
          Show all {formatCount(text.length)} characters
        </button>
      )}
      {blob !== undefined && <Blob id={blob} />}
    </>
  );
}

/** Content stored by reference: a long tool output or a binary file. */
function Blob({ id }: { id: string }): JSX.Element {
  const text = useSignal<string | undefined>(undefined);
  const image = useSignal<string | undefined>(undefined);
  const load = async (): Promise<void> => {
    const { mediaType, data } = await client().readBlob(id);
    if (SHOWN_IMAGES.includes(mediaType)) image.value = `data:${mediaType};base64,${base64Of(data)}`;
    else text.value = new TextDecoder().decode(data);
  };
  if (image.value !== undefined) return <img class="message-image" src={image.value} alt="Attached to this message" />;
  if (text.value !== undefined) {
    return (
      <>
        <p class="soft">Full output, {formatSize(text.value.length)}:</p>
        <LongText text={text.value} isCode />
      </>
    );
  }
  return <Action run={load}>Show full output</Action>;
}

/** Image formats that cannot contain scripts. */
export const SHOWN_IMAGES: readonly string[] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

export function base64Of(data: Uint8Array): string {
  let binary = "";
  for (const byte of data) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/** The content of a message or a tool result: text, images, and a placeholder for other formats. */
export function ContentView({ content, isCode = false }: { content: Content; isCode?: boolean }): JSX.Element {
  if (typeof content === "string") return <LongText text={content} isCode={isCode} />;
  return (
    <>
      {content.map((block, index) => {
        if (block.type === "text") return <LongText key={index} text={block.text} isCode={isCode} />;
        if (block.source === "blob") return <Blob key={index} id={block.blob_id} />;
        // Not loaded: the request would tell another server that the transcript is being read.
        if (block.source === "url") {
          return (
            <p key={index} class="soft">
              <Link href={block.url}>Image: {block.url}</Link>
            </p>
          );
        }
        if (!SHOWN_IMAGES.includes(block.media_type)) {
          return (
            <p key={index} class="soft">
              ({block.type}, <bdi>{block.media_type}</bdi>, {formatSize((block.data.length * 3) / 4)})
            </p>
          );
        }
        const source = `data:${block.media_type};base64,${block.data}`;
        return <img key={index} class="message-image" src={source} alt="In this message" />;
      })}
    </>
  );
}

export function plainText(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : `(${block.type})`)).join("\n");
}

const EXCERPT_CHARS = 90;

export function excerpt(text: string): string {
  const line = withoutControls(text.slice(0, EXCERPT_CHARS * 2))
    .replace(/\s+/g, " ")
    .trim();
  return line.length > EXCERPT_CHARS ? `${line.slice(0, EXCERPT_CHARS)}…` : line;
}
