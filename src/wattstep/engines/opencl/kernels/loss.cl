// Losses of samples, their mean, and gradients. With GRADIENT both in one pass.
#ifndef GRADIENT
#define GRADIENT 0
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#if GRADIENT
#define GRADIENT_PARAMETER , __global float *restrict gradient OUTPUT_PARAMETER
#else
#define GRADIENT_PARAMETER
#endif
#if LOSSES
#define LOSSES_PARAMETER , __global float *restrict losses
#else
#define LOSSES_PARAMETER
#endif

__kernel void cross_entropy(int rows, int classes, __global const float *restrict scores,
                            __global const int *restrict targets LOSSES_PARAMETER GRADIENT_PARAMETER) {
  const int row = get_global_id(0);
  if (row >= rows) return;
  const int begin = row * classes;
  float most = -INFINITY, sum = 0.0f;
  for (int j = 0; j < classes; ++j) most = fmax(most, scores[begin + j]);
  for (int j = 0; j < classes; ++j) sum += exp(scores[begin + j] - most);
  const int target = targets[row];
#if LOSSES
  losses[row] = log(sum) + most - scores[begin + target];
#endif
#if GRADIENT
  for (int j = 0; j < classes; ++j) {
    const float share = exp(scores[begin + j] - most) / sum;
    WRITE(gradient, begin + j, (share - (j == target ? 1.0f : 0.0f)) / rows);
  }
#endif
}

__kernel void squared_error(int rows, int width, __global const float *restrict values,
                            __global const float *restrict targets LOSSES_PARAMETER
                                GRADIENT_PARAMETER) {
  const int row = get_global_id(0);
  if (row >= rows) return;
  float sum = 0.0f;
  for (int at = row * width; at < (row + 1) * width; ++at) {
    const float off = values[at] - targets[at];
    sum += off * off;
#if GRADIENT
    WRITE(gradient, at, 2.0f * off / ((float)rows * width));
#endif
  }
#if LOSSES
  losses[row] = sum / width;
#endif
}

__kernel void mean(int count, __global const float *restrict values, __global float *restrict made) {
  if (get_global_id(0)) return;
  float sum = 0.0f;
  for (int i = 0; i < count; ++i) sum += values[i];
  made[0] = sum / count;
}
