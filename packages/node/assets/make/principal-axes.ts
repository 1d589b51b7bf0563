const SWEEPS_MAX = 30;
const OFF_DIAGONAL_SHARE = 1e-20;

/** The axes along which the rows differ most, strongest first: the eigenvectors of their covariance, by Jacobi's method. */
export function principalAxes(rows: readonly Float32Array[], count: number): readonly Float64Array[] {
  const matrix = covariance(rows);
  const axes = matrix.map((_, i) => Float64Array.from(matrix, (__, j) => (i === j ? 1 : 0)));
  const whole = matrix.reduce((sum, row) => sum + row.reduce((part, x) => part + x * x, 0), 0);
  for (let sweep = 0; sweep < SWEEPS_MAX && offDiagonal(matrix) > whole * OFF_DIAGONAL_SHARE; sweep += 1) {
    for (let p = 0; p < matrix.length; p += 1) {
      for (let q = p + 1; q < matrix.length; q += 1) rotate({ matrix, axes }, p, q);
    }
  }
  const order = matrix.map((row, i) => ({ axis: axes[i] ?? row, strength: row[i] ?? 0 }));
  order.sort((a, b) => b.strength - a.strength);
  return order.slice(0, count).map(({ axis }) => withFixedSign(axis));
}

/** Of rows whose mean is zero. */
function covariance(rows: readonly Float32Array[]): Float64Array[] {
  const size = rows[0]?.length ?? 0;
  const sums = Array.from({ length: size }, () => new Float64Array(size));
  for (const row of rows) {
    for (const [i, sum] of sums.entries()) {
      const x = row[i] ?? 0;
      for (let j = 0; j < size; j += 1) sum[j] = (sum[j] ?? 0) + x * (row[j] ?? 0);
    }
  }
  return sums.map((sum) => sum.map((x) => x / rows.length));
}

function offDiagonal(matrix: readonly Float64Array[]): number {
  return matrix.reduce((sum, row, i) => sum + row.reduce((part, x, j) => (i === j ? part : part + x * x), 0), 0);
}

function rotate(state: { matrix: Float64Array[]; axes: Float64Array[] }, p: number, q: number): void {
  const { matrix, axes } = state;
  const [rowP, rowQ, axisP, axisQ] = [matrix[p], matrix[q], axes[p], axes[q]];
  if (!(rowP && rowQ && axisP && axisQ)) return;
  const pq = rowP[q] ?? 0;
  if (pq === 0) return;
  const theta = ((rowQ[q] ?? 0) - (rowP[p] ?? 0)) / (2 * pq);
  const tangent = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const cosine = 1 / Math.sqrt(tangent * tangent + 1);
  const sine = tangent * cosine;
  for (const row of matrix) {
    const [x, y] = [row[p] ?? 0, row[q] ?? 0];
    row[p] = cosine * x - sine * y;
    row[q] = sine * x + cosine * y;
  }
  for (const [first, second] of [
    [rowP, rowQ],
    [axisP, axisQ],
  ] as const) {
    for (let k = 0; k < first.length; k += 1) {
      const [x, y] = [first[k] ?? 0, second[k] ?? 0];
      first[k] = cosine * x - sine * y;
      second[k] = sine * x + cosine * y;
    }
  }
}

/** An axis may point either way; its largest part is made positive. */
function withFixedSign(axis: Float64Array): Float64Array {
  const largest = axis.reduce((most, x) => (Math.abs(x) > Math.abs(most) ? x : most), 0);
  return largest < 0 ? axis.map((x) => -x) : axis;
}
