// The windows of a convolution as columns, and what comes back from columns into the image.

// columns[z][channel, ky, kx][oy, ox]; a work item writes one row of it.
__kernel void windows(int channels, int height, int width, int kh, int kw, int sy, int sx, int py,
                      int px, int dy, int dx, int oh, int ow, __global const float *restrict image,
                      __global float *restrict columns) {
  const int oy = get_global_id(0), place = get_global_id(1), z = get_global_id(2);
  const int places = channels * kh * kw;
  if (oy >= oh || place >= places) return;
  const int channel = place / (kh * kw), ky = place / kw % kh, kx = place % kw;
  const int y = oy * sy - py + ky * dy, shift = kx * dx - px;
  __global float *to = columns + ((z * places + place) * oh + oy) * ow;
  if (y < 0 || y >= height) {
    for (int x = 0; x < ow; ++x) to[x] = 0.0f;
    return;
  }
  __global const float *from = image + ((z * channels + channel) * height + y) * width;
  const int low = clamp(shift < 0 ? (sx - 1 - shift) / sx : 0, 0, ow);
  const int high = clamp(width > shift ? (width - 1 - shift) / sx + 1 : 0, low, ow);
  for (int x = 0; x < low; ++x) to[x] = 0.0f;
  if (sx == 1)
    for (int x = low; x < high; ++x) to[x] = from[x + shift];
  else
    for (int x = low; x < high; ++x) to[x] = from[x * sx + shift];
  for (int x = high; x < ow; ++x) to[x] = 0.0f;
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
