/** Scales a vector in place to length 1; one without a direction stays zero. */
export function toUnitLength(vector: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  const length = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
  if (length === 0) return vector;
  for (const [index, x] of vector.entries()) vector[index] = x / length;
  return vector;
}
