import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { Content } from "../src/contract/message.ts";
import { formatCount, formatSize } from "./format.ts";
import { Action } from "./parts.tsx";
import { client } from "./server.ts";

/** So much is shown at once; a page that holds a megabyte in sight is slow for everybody. */
const CHARS_MAX = 20_000;
const BLOB = /the full output is blob ([\w:-]{1,200}) …\]/;

/** A text as it is, and nothing else: whatever it holds, it is no markup. */
export function LongText({ text, isCode = false }: { text: string; isCode?: boolean }): JSX.Element {
  const isWhole = useSignal(false);
  const shown = isWhole.value ? text : text.slice(0, CHARS_MAX);
  const blob = BLOB.exec(text)?.[1];
  return (
    <>
      {isCode ? <pre class="text">{shown}</pre> : <div class="text">{shown}</div>}
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

/** What was too long for the context, or is no text. */
function Blob({ id }: { id: string }): JSX.Element {
  const text = useSignal<string | undefined>(undefined);
  const image = useSignal<string | undefined>(undefined);
  const read = async (): Promise<void> => {
    const { mediaType, data } = await client().readBlob(id);
    if (SHOWN_IMAGES.includes(mediaType)) image.value = `data:${mediaType};base64,${base64Of(data)}`;
    else text.value = new TextDecoder().decode(data);
  };
  if (image.value !== undefined) return <img class="said-image" src={image.value} alt="Kept with this message" />;
  if (text.value !== undefined) {
    return (
      <>
        <p class="soft">The whole output, {formatSize(text.value.length)}:</p>
        <LongText text={text.value} isCode />
      </>
    );
  }
  return <Action does={read}>Open the whole output</Action>;
}

/** Images a browser draws without running anything. */
const SHOWN_IMAGES: readonly string[] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

function base64Of(data: Uint8Array): string {
  let letters = "";
  for (const byte of data) letters += String.fromCharCode(byte);
  return btoa(letters);
}

/** What was said or given: texts, images, and a word about what cannot be shown. */
export function Said({ content, isCode = false }: { content: Content; isCode?: boolean }): JSX.Element {
  if (typeof content === "string") return <LongText text={content} isCode={isCode} />;
  return (
    <>
      {content.map((block, index) => {
        if (block.type === "text") return <LongText key={index} text={block.text} isCode={isCode} />;
        if (block.source === "blob") return <Blob key={index} id={block.blob_id} />;
        // Not fetched: whoever reads a transcript would tell another server of it.
        if (block.source === "url") {
          return (
            <p key={index} class="soft">
              (image at <bdi>{block.url}</bdi>)
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
        return <img key={index} class="said-image" src={source} alt="Given with this message" />;
      })}
    </>
  );
}

/** The words of a content, for what tells its beginning or its size. */
export function wordsOf(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : `(${block.type})`)).join("\n");
}

const BEGINNING_CHARS = 90;

export function beginningOf(text: string): string {
  const line = text
    .slice(0, BEGINNING_CHARS * 2)
    .replace(/\s+/g, " ")
    .trim();
  return line.length > BEGINNING_CHARS ? `${line.slice(0, BEGINNING_CHARS)}…` : line;
}
