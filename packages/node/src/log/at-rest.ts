/** What has not changed for so long is at rest, and is packed. */
export const AT_REST_MS = 7 * 86_400_000;
