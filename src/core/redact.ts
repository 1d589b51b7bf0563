/** Replaces secrets in text that is about to be kept or shown. */
export type Redact = (text: string) => string;

const MASK = "[redacted]";
const SECRET_LENGTH_MIN = 8;

/** Shapes of keys that are secret whoever holds them. */
const KEY_SHAPES: readonly RegExp[] = [
  /\bsk-[A-Za-z0-9_-]{16,}/g,
  /\bxai-[A-Za-z0-9_-]{20,}/g,
  /\b(?:gsk|hf)_[A-Za-z0-9]{20,}/g,
  /\bAIza[0-9A-Za-z_-]{30,}/g,
  /\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,}/g,
  /\bgithub_pat_[A-Za-z0-9_]{30,}/g,
  /\bxox[abprs]-[A-Za-z0-9-]{10,}/g,
  /\bAKIA[0-9A-Z]{16}\b/g,
  /(?<=\bBearer\s)[A-Za-z0-9._~+/-]{16,}=*/gi,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----/g,
];

/** Masks the given values wherever they occur, and anything shaped like a key. */
export function createRedactor(secrets: readonly string[]): Redact {
  // Longest first: a secret that contains another must not leave its own rest behind.
  const values = [...new Set(secrets)]
    .filter((secret) => secret.length >= SECRET_LENGTH_MIN)
    .sort((a, b) => b.length - a.length);
  return (text) => {
    let safe = text;
    for (const value of values) if (safe.includes(value)) safe = safe.replaceAll(value, MASK);
    for (const shape of KEY_SHAPES) safe = safe.replace(shape, MASK);
    return safe;
  };
}
