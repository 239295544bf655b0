// The windows of a convolution as columns, and what comes back from columns into the image.

// columns[z][channel, ky, kx][oy, ox]; a work item writes all pixels of one place in a window.
__kernel void windows(int channels, int height, int width, int kh, int kw, int sy, int sx, int py,
                      int px, int dy, int dx, int oh, int ow, __global const float *restrict image,
                      __global float *restrict columns) {
  const int place = get_global_id(0), z = get_global_id(1), places = channels * kh * kw;
  if (place >= places) return;
  const int channel = place / (kh * kw), ky = place / kw % kh, shift = place % kw * dx - px;
  const int low = clamp(shift < 0 ? (sx - 1 - shift) / sx : 0, 0, ow);
  const int high = clamp(width > shift ? (width - 1 - shift) / sx + 1 : 0, low, ow);
  __global float *to = columns + (z * places + place) * oh * ow;
  image += (z * channels + channel) * height * width;
  for (int oy = 0; oy < oh; ++oy, to += ow) {
    const int y = oy * sy - py + ky * dy;
    const int begin = y < 0 || y >= height ? ow : low, end = begin == ow ? ow : high;
    __global const float *from = image + y * width + shift;
    for (int x = 0; x < begin; ++x) to[x] = 0.0f;
    if (sx == 1)
      for (int x = begin; x < end; ++x) to[x] = from[x];
    else
      for (int x = begin; x < end; ++x) to[x] = from[x * sx];
    for (int x = end; x < ow; ++x) to[x] = 0.0f;
  }
}

// The image's gradient from that of its columns; a work item writes one row of the image.
__kernel void image_of_windows(int channels, int height, int width, int kh, int kw, int sy, int sx,
                               int py, int px, int dy, int dx, int oh, int ow,
                               __global const float *restrict columns,
                               __global float *restrict image OUTPUT_PARAMETER) {
  const int y = get_global_id(0), channel = get_global_id(1), z = get_global_id(2);
  if (y >= height || channel >= channels) return;
  const int places = channels * kh * kw, begin = ((z * channels + channel) * height + y) * width;
  __global float *to = image + begin;
#if !ACCUMULATE
  for (int x = 0; x < width; ++x) to[x] = 0.0f;
#endif
  for (int ky = 0; ky < kh; ++ky) {
    const int down = y + py - ky * dy;
    if (down < 0 || down % sy || down / sy >= oh) continue;
    for (int kx = 0; kx < kw; ++kx) {
      const int shift = kx * dx - px;
      const int low = clamp(shift < 0 ? (sx - 1 - shift) / sx : 0, 0, ow);
      const int high = clamp(width > shift ? (width - 1 - shift) / sx + 1 : 0, low, ow);
      __global const float *from =
          columns + ((z * places + (channel * kh + ky) * kw + kx) * oh + down / sy) * ow;
      if (sx == 1)
        for (int x = low; x < high; ++x) to[x + shift] += from[x];
      else
        for (int x = low; x < high; ++x) to[x * sx + shift] += from[x];
    }
  }
#if DACT
  for (int x = 0; x < width; ++x) to[x] *= slope(output[begin + x]);
#endif
}
