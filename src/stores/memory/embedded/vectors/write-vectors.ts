import type { EmbedderState, Tables } from "../tables.ts";
import { checksumOf, decodePresence, encodePresence, isPresent, PRESENCE_IDS, setPresent } from "./presence.ts";
import { layoutFor } from "./scan/layout.ts";
import type { VectorFiles } from "./vector-files.ts";
import { isSoundRow, signatureOf, type VectorRow } from "./vector-row.ts";

interface Target {
  readonly tables: Tables;
  readonly embedderId: string;
  files(state: EmbedderState): VectorFiles;
}

/**
 * Writes vectors that are wanted and not there, and notes in the tables that they are. Nothing is written when the embedder
 * has another number of dimensions: the state that comes back tells. Inside a transaction.
 */
export function putRows(
  { tables, embedderId, files }: Target,
  dimensions: number,
  vectors: readonly VectorRow[],
): EmbedderState {
  const fresh = (): EmbedderState => ({ number: tables.embedders.getCount() + 1, dimensions, revision: 0 });
  const before = tables.embedders.get(embedderId) ?? fresh();
  if (before.dimensions !== dimensions) return before;
  const state = { ...before, revision: before.revision + 1 };
  const pages = Map.groupBy(vectors, ({ id }) => Math.floor(id / PRESENCE_IDS));
  for (const [page, rows] of pages) putPage({ tables, state, files: files(state) }, page, rows);
  tables.embedders.put(embedderId, state);
  return state;
}

function putPage(
  { tables, state, files }: { readonly tables: Tables; readonly state: EmbedderState; readonly files: VectorFiles },
  page: number,
  vectors: readonly VectorRow[],
): void {
  const { signatureBytes } = layoutFor(state.dimensions, 0);
  const { bits } = decodePresence(tables.presence.get([state.number, page]));
  const wanted = vectors.filter(({ id }) => !isPresent(bits, id % PRESENCE_IDS) && tables.rows.doesExist(id));
  if (wanted.length === 0) return;
  files.write(wanted);
  for (const { id } of wanted) setPresent(bits, id % PRESENCE_IDS, true);
  const signatures = new Uint8Array(PRESENCE_IDS * signatureBytes);
  files.readSignatures(page * PRESENCE_IDS, signatures);
  const checksum = checksumOf(bits, signatures, signatureBytes);
  tables.presence.put([state.number, page], encodePresence({ revision: state.revision, checksum, bits }));
}

/** Makes signatures again from the rows that are sound, and takes those that are not for missing. Inside a transaction. */
export function mendPage(
  { embedders, presence }: Tables,
  files: VectorFiles,
  { embedderId, page }: { readonly embedderId: string; readonly page: number },
): number {
  const state = embedders.get(embedderId);
  if (state === undefined) return 0;
  const sizes = layoutFor(state.dimensions, 0);
  const { bits } = decodePresence(presence.get([state.number, page]));
  const signatures = new Uint8Array(PRESENCE_IDS * sizes.signatureBytes);
  const row = Buffer.alloc(sizes.stride);
  let lost = 0;
  for (let place = 0; place < PRESENCE_IDS; place += 1) {
    const id = page * PRESENCE_IDS + place;
    if (!isPresent(bits, place)) continue;
    files.readRows(id, row, 1);
    if (isSoundRow(row, id, sizes)) {
      const signature = signatureOf(row, sizes);
      signatures.set(signature, place * sizes.signatureBytes);
      files.write([{ id, row, signature }]);
      continue;
    }
    setPresent(bits, place, false);
    lost += 1;
  }
  const revision = state.revision + 1;
  const checksum = checksumOf(bits, signatures, sizes.signatureBytes);
  presence.put([state.number, page], encodePresence({ revision, checksum, bits }));
  embedders.put(embedderId, { ...state, revision });
  return lost;
}
