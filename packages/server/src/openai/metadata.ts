/** Before the name of a metadatum among the labels of a session: those that say who may see it are not among them. */
const PREFIX = "openai.metadata.";

/** Metadata as labels of the session that is made with them: there they are kept, and sessions are found by them. */
export function labelsOf(metadata: Readonly<Record<string, string>> | null | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(metadata ?? {}).map(([key, value]) => [`${PREFIX}${key}`, value]));
}

export function metadataIn(labels: Readonly<Record<string, string>> | undefined): Record<string, string> {
  const own = Object.entries(labels ?? {}).filter(([key]) => key.startsWith(PREFIX));
  return Object.fromEntries(own.map(([key, value]) => [key.slice(PREFIX.length), value]));
}
