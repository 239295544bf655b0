// Value by value, and copies of rows.
#define EACH(at, count)                                                                              \
  for (int at = get_global_id(0) * CHUNK, end_ = min(at + CHUNK, count); at < end_; ++at)

__kernel void activate(int count, __global const float *restrict a, __global float *restrict c) {
  EACH(at, count) c[at] = activated(a[at]);
}

#if DACT
__kernel void activation_backward(int count, __global const float *restrict a,
                                  __global const float *restrict made, __global float *restrict c) {
#if ACCUMULATE
  EACH(at, count) c[at] += a[at] * slope(made[at]);
#else
  EACH(at, count) c[at] = a[at] * slope(made[at]);
#endif
}
#endif

// A part of a gradient, which ACCUMULATE adds, and DACT brings back through an activation.
__kernel void pass(int count, __global const float *restrict a,
                   __global float *restrict c OUTPUT_PARAMETER) {
  EACH(at, count) WRITE(c, at, a[at]);
}

__kernel void add(int count, __global const float *restrict a, __global const float *restrict b,
                  __global float *restrict c) {
  EACH(at, count) c[at] = activated(a[at] + b[at]);
}

__kernel void multiply(int count, __global const float *restrict a, __global const float *restrict b,
                       __global float *restrict c OUTPUT_PARAMETER) {
  EACH(at, count) WRITE(c, at, a[at] * b[at]);
}

// Rows of some width from one array of rows into another.
__kernel void copy_rows(int rows, int width, __global const float *restrict a, int a_wide,
                        int a_begin, __global float *restrict c, int c_wide,
                        int c_begin OUTPUT_PARAMETER) {
  const int row = get_global_id(1);
  if (row >= rows) return;
  EACH(column, width) WRITE(c, row * c_wide + c_begin + column, a[row * a_wide + a_begin + column]);
}
