// Products of matrices. FINISH writes a value: into c, or, with UPDATE, into the parameter whose
// gradient it is (`update` is made from the optimizer). With SUMS a product is a linear layer's
// gradient, and the sums of a's rows, the gradient of its bias, come with it.
#ifndef BIAS // 1: by row, 2: by column
#define BIAS 0
#endif
#ifndef UPDATE
#define UPDATE 0
#endif
#if BIAS
#define BIAS_PARAMETER , __global const float *restrict bias
#else
#define BIAS_PARAMETER
#endif
#if BIAS == 1
#define BIASED(value, row, column) ((value) + bias[row])
#elif BIAS == 2
#define BIASED(value, row, column) ((value) + bias[column])
#else
#define BIASED(value, row, column) (value)
#endif
#ifndef SUMS
#define SUMS 0
#endif
#if UPDATE
#define FINISH(row, column, at, value) update(at, value UPDATE_ARGUMENTS(c))
#define FINISH_SUM(row, value) update(row, value UPDATE_ARGUMENTS(s))
#define RESULT_PARAMETER UPDATE_PARAMETERS(c)
#define SUMS_PARAMETER UPDATE_PARAMETERS(s)
#else
#define FINISH(row, column, at, value) WRITE(c, at, activated(BIASED(value, row, column)))
#define FINISH_SUM(row, value) KEEP(s, row, value)
#define RESULT_PARAMETER , __global float *restrict c
#define SUMS_PARAMETER , __global float *restrict s
#endif
#if !SUMS
#undef SUMS_PARAMETER
#define SUMS_PARAMETER
#endif
#ifndef ROWS // of c in the registers of a work item of `product`
#define ROWS 4
#endif
#ifndef LEFT // rows of a, and of b, in those of `product_of_rows`
#define LEFT 2
#endif
#define RIGHT 4
#ifndef GROUPS // matrices a, and parts of a bias by row, which products take in turns
#define GROUPS 1
#endif

// c[z] = a[g] b[z], g = z % GROUPS; a(i, p) lies at g * az + i * ai + p * ap, rows of b and c are
// contiguous.
__kernel void product(int m, int n, int k, __global const float *restrict a, int az, int ai, int ap,
                      __global const float *restrict b, int bz, int bp, int cz,
                      int ci RESULT_PARAMETER BIAS_PARAMETER OUTPUT_PARAMETER SUMS_PARAMETER) {
  int j = get_global_id(0) * 8;
  const int i = get_global_id(1) * ROWS, z = get_global_id(2);
  if (j >= (n + 7) / 8 * 8 + 8 * SUMS || i >= m) return;
  a += z % GROUPS * az;
#if BIAS == 1
  bias += z % GROUPS * m;
#endif
  __global const float *row[ROWS];
  for (int r = 0; r < ROWS; ++r) row[r] = a + min(i + r, m - 1) * ai;
  const int high = min(ROWS, m - i);
#if SUMS
  if (j >= n) {
    for (int r = 0; r < high; ++r) {
      float one = 0.0f;
      for (int p = 0; p < k; ++p) one += row[r][p * ap];
      FINISH_SUM(i + r, one);
    }
    return;
  }
#endif
#if !UPDATE && !ACCUMULATE
  if (n >= 8) j = min(j, n - 8); // the last columns are computed twice, to the same values
#endif
  const int wide = min(8, n - j);
  b += z * bz + j;
  float8 sum[ROWS];
  for (int r = 0; r < ROWS; ++r) sum[r] = (float8)(0.0f);
  if (wide == 8) {
    for (int p = 0; p < k; ++p) {
      const float8 values = vload8(0, b + p * bp);
      for (int r = 0; r < ROWS; ++r) sum[r] += row[r][p * ap] * values;
    }
  } else {
    for (int p = 0; p < k; ++p) {
      float edge[8] = {0.0f};
      for (int q = 0; q < wide; ++q) edge[q] = b[p * bp + q];
      const float8 values = vload8(0, edge);
      for (int r = 0; r < ROWS; ++r) sum[r] += row[r][p * ap] * values;
    }
  }
  for (int r = 0; r < high; ++r) {
    float values[8];
    vstore8(sum[r], 0, values);
    const int at = z * cz + (i + r) * ci + j;
    for (int q = 0; q < wide; ++q) FINISH(i + r, j + q, at + q, values[q]);
  }
}

// c[g] = sum over z of a[z, g] b[z, g]^T; rows of a (at z * az + i * ai) and of b (z * bz + j * bj) are
// contiguous, those of one g follow those of the one before, as in c.
__kernel void product_of_rows(int m, int n, int k, int zs, __global const float *restrict a, int az,
                              int ai, __global const float *restrict b, int bz, int bj,
                              int ci RESULT_PARAMETER BIAS_PARAMETER OUTPUT_PARAMETER) {
  const int j = get_global_id(0) * RIGHT, i = get_global_id(1) * LEFT, g = get_global_id(2);
  if (j >= n || i >= m) return;
  a += g * m * ai;
  b += g * n * bj;
  const int high = min(LEFT, m - i), wide = min(RIGHT, n - j), whole = k / 8 * 8;
  const int half_ = whole + (k - whole) / 4 * 4;
  float total[LEFT][RIGHT] = {{0.0f}};
  for (int z = 0; z < zs; ++z) {
    __global const float *left[LEFT], *right[RIGHT];
    for (int r = 0; r < LEFT; ++r) left[r] = a + z * az + min(i + r, m - 1) * ai;
    for (int q = 0; q < RIGHT; ++q) right[q] = b + z * bz + min(j + q, n - 1) * bj;
    float8 sum[LEFT][RIGHT];
    for (int r = 0; r < LEFT; ++r)
      for (int q = 0; q < RIGHT; ++q) sum[r][q] = (float8)(0.0f);
    for (int p = 0; p < whole; p += 8) {
      float8 of_left[LEFT], of_right[RIGHT];
      for (int r = 0; r < LEFT; ++r) of_left[r] = vload8(0, left[r] + p);
      for (int q = 0; q < RIGHT; ++q) of_right[q] = vload8(0, right[q] + p);
      for (int r = 0; r < LEFT; ++r)
        for (int q = 0; q < RIGHT; ++q) sum[r][q] += of_left[r] * of_right[q];
    }
    for (int r = 0; r < LEFT; ++r)
      for (int q = 0; q < RIGHT; ++q) {
        float4 four = sum[r][q].lo + sum[r][q].hi;
        if (half_ > whole) four += vload4(0, left[r] + whole) * vload4(0, right[q] + whole);
        float one = (four.x + four.y) + (four.z + four.w);
        for (int p = half_; p < k; ++p) one += left[r][p] * right[q][p];
        total[r][q] += one;
      }
  }
  for (int r = 0; r < high; ++r)
    for (int q = 0; q < wide; ++q) FINISH(i + r, j + q, (g * m + i + r) * ci + j + q, total[r][q]);
}

// Of each channel the sum over samples and pixels: value (z, channel, p) lies at z * az + channel * ai + p.
__kernel void sums(int zs, int pixels, __global const float *restrict a, int az,
                   int ai, __global float *restrict c) {
  SHARED
  const int channel = get_group_id(0), me = get_local_id(0);
  float total = 0.0f;
  for (int z = 0; z < zs; ++z) {
    __global const float *row = a + z * az + channel * ai;
    float8 sum = (float8)(0.0f);
    int p = me;
#if GROUP == 1
    for (; p + 8 <= pixels; p += 8) sum += vload8(0, row + p);
#endif
    const float4 four = sum.lo + sum.hi;
    float one = (four.x + four.y) + (four.z + four.w);
    for (; p < pixels; p += GROUP) one += row[p];
    total += one;
  }
  total = TOGETHER(total);
  if (me == 0) KEEP(c, channel, total);
}
