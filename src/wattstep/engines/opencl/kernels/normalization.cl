// Batch normalisation of (samples, channels, pixels); a work group tells a channel's sums.

// statistics: of each channel the mean, then of each the reciprocal deviation.
__kernel void statistics(int samples, int channels, int pixels, float eps, float momentum,
                         __global const float *restrict values, __global float *restrict statistics,
                         __global float *restrict running_mean,
                         __global float *restrict running_variance) {
  SHARED
  const int channel = get_group_id(0), me = get_local_id(0);
  const float count = (float)samples * pixels;
  float sum = 0.0f;
  for (int z = 0; z < samples; ++z) {
    __global const float *row = values + (z * channels + channel) * pixels;
    float part = 0.0f;
    for (int p = me; p < pixels; p += GROUP) part += row[p];
    sum += part;
  }
  const float mean = TOGETHER(sum) / count;
  float square = 0.0f;
  for (int z = 0; z < samples; ++z) {
    __global const float *row = values + (z * channels + channel) * pixels;
    float part = 0.0f;
    for (int p = me; p < pixels; p += GROUP) part += (row[p] - mean) * (row[p] - mean);
    square += part;
  }
  const float variance = TOGETHER(square) / count;
  if (me == 0) {
    statistics[channel] = mean;
    statistics[channels + channel] = 1.0f / sqrt(variance + eps);
    running_mean[channel] += momentum * (mean - running_mean[channel]);
    const float unbiased = variance * (count / (count - 1.0f));
    running_variance[channel] += momentum * (unbiased - running_variance[channel]);
  }
}

__kernel void normalized(int planes, int channels, int pixels, __global const float *restrict values,
                        __global const float *restrict statistics,
                        __global const float *restrict weight, __global const float *restrict bias,
                        __global float *restrict made) {
  const int plane = get_global_id(1), channel = plane % channels;
  if (plane >= planes) return;
  const float scale = statistics[channels + channel] * weight[channel];
  const float mean = statistics[channel], shift = bias[channel];
  const int begin = get_global_id(0) * CHUNK, end = min(begin + CHUNK, pixels);
  for (int p = begin; p < end; ++p) {
    const int at = plane * pixels + p;
    made[at] = activated((values[at] - mean) * scale + shift);
  }
}

// Gradients of bias and weight of each channel.
__kernel void normalize_sums(int samples, int channels, int pixels,
                             __global const float *restrict values,
                             __global const float *restrict statistics,
                             __global const float *restrict gradient,
                             __global float *restrict of_weight, __global float *restrict of_bias) {
  SHARED
  const int channel = get_group_id(0), me = get_local_id(0);
  const float mean = statistics[channel], scale = statistics[channels + channel];
  float sum = 0.0f, product = 0.0f;
  for (int z = 0; z < samples; ++z) {
    const int row = (z * channels + channel) * pixels;
    float part = 0.0f, other = 0.0f;
    for (int p = me; p < pixels; p += GROUP) {
      part += gradient[row + p];
      other += gradient[row + p] * (values[row + p] - mean);
    }
    sum += part;
    product += other;
  }
  sum = TOGETHER(sum);
  product = TOGETHER(product);
  if (me == 0) {
    of_bias[channel] = sum;
    of_weight[channel] = product * scale;
  }
}

__kernel void normalize_backward(int planes, int channels, int pixels, float count,
                                 __global const float *restrict values,
                                 __global const float *restrict statistics,
                                 __global const float *restrict weight,
                                 __global const float *restrict of_weight,
                                 __global const float *restrict of_bias,
                                 __global const float *restrict gradient,
                                 __global float *restrict made OUTPUT_PARAMETER) {
  const int plane = get_global_id(1), channel = plane % channels;
  if (plane >= planes) return;
  const float mean = statistics[channel], scale = statistics[channels + channel];
  const float mean_gradient = of_bias[channel] / count, along = of_weight[channel] / count;
  const float factor = scale * weight[channel];
  const int begin = get_global_id(0) * CHUNK, end = min(begin + CHUNK, pixels);
  for (int p = begin; p < end; ++p) {
    const int at = plane * pixels + p;
    const float normal = (values[at] - mean) * scale;
    WRITE(made, at, factor * (gradient[at] - mean_gradient - normal * along));
  }
}
