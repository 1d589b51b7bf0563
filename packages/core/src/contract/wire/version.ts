/** The wire contract this runtime speaks; clients of the same major and minor connect. */
export const CONTRACT_VERSION = { major: 0, minor: 6, patch: 30 } as const;
