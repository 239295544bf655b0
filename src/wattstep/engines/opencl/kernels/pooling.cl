// Pooling of images; a work item goes through one row. Windows may reach over the edges.
#define SHAPE                                                                                        \
  int planes, int height, int width, int kh, int kw, int sy, int sx, int py, int px, int oh, int ow

// Values that an average is over: with the padding (but not beyond it), or those of the image alone.
inline int counted(int begin, int size, int padding, int side, int with_padding) {
  const int end = min(begin + size, side + padding);
  return with_padding ? end - begin : min(end, side) - max(begin, 0);
}

__kernel void average(SHAPE, int with_padding, __global const float *restrict image,
                      __global float *restrict pooled) {
  const int oy = get_global_id(0), plane = get_global_id(1);
  if (oy >= oh || plane >= planes) return;
  image += plane * height * width;
  const int top = oy * sy - py;
  for (int ox = 0; ox < ow; ++ox) {
    const int left = ox * sx - px;
    float sum = 0.0f;
    for (int y = max(top, 0); y < min(top + kh, height); ++y)
      for (int x = max(left, 0); x < min(left + kw, width); ++x) sum += image[y * width + x];
    const int count = counted(top, kh, py, height, with_padding) *
                      counted(left, kw, px, width, with_padding);
    pooled[(plane * oh + oy) * ow + ox] = sum / count;
  }
}

// The first and the one after the last window that a pixel lies in.
#define FIRST(at, size, step, padding) max(0, (at + padding - size + step) / step)
#define BEYOND(at, step, padding, places) min(places, (at + padding) / step + 1)

__kernel void average_backward(SHAPE, int with_padding, __global const float *restrict gradient,
                               __global float *restrict image OUTPUT_PARAMETER) {
  const int y = get_global_id(0), plane = get_global_id(1);
  if (y >= height || plane >= planes) return;
  gradient += plane * oh * ow;
  for (int x = 0; x < width; ++x) {
    float sum = 0.0f;
    for (int oy = FIRST(y, kh, sy, py); oy < BEYOND(y, sy, py, oh); ++oy)
      for (int ox = FIRST(x, kw, sx, px); ox < BEYOND(x, sx, px, ow); ++ox)
        sum += gradient[oy * ow + ox] /
               (counted(oy * sy - py, kh, py, height, with_padding) *
                counted(ox * sx - px, kw, px, width, with_padding));
    WRITE(image, (plane * height + y) * width + x, sum);
  }
}

// Of windows that lie side by side, and never beyond the image.
__kernel void average_of_tiles_backward(SHAPE, __global const float *restrict gradient,
                                        __global float *restrict image OUTPUT_PARAMETER) {
  const int y = get_global_id(0), plane = get_global_id(1);
  if (y >= height || plane >= planes) return;
  const int begin = (plane * height + y) * width, inside = y / kh < oh;
  gradient += (plane * oh + (inside ? y / kh : 0)) * ow;
  const float share = inside ? 1.0f / (kh * kw) : 0.0f;
  for (int ox = 0; ox < ow; ++ox) {
    const float value = gradient[ox] * share;
    for (int x = ox * kw; x < (ox + 1) * kw; ++x) WRITE(image, begin + x, value);
  }
  for (int x = ow * kw; x < width; ++x) WRITE(image, begin + x, 0.0f);
}

// Of equal values the first counts, as in torch.
__kernel void maximum(SHAPE, __global const float *restrict image, __global float *restrict pooled,
                      __global int *restrict places) {
  const int oy = get_global_id(0), plane = get_global_id(1);
  if (oy >= oh || plane >= planes) return;
  image += plane * height * width;
  for (int ox = 0; ox < ow; ++ox) {
    const int top = oy * sy - py, left = ox * sx - px;
    float most = -INFINITY;
    int place = max(top, 0) * width + max(left, 0);
    for (int y = max(top, 0); y < min(top + kh, height); ++y)
      for (int x = max(left, 0); x < min(left + kw, width); ++x) {
        const float value = image[y * width + x];
        if (value > most || isnan(value)) {
          most = value;
          place = y * width + x;
        }
      }
    pooled[(plane * oh + oy) * ow + ox] = most;
    places[(plane * oh + oy) * ow + ox] = place;
  }
}

__kernel void maximum_backward(SHAPE, __global const float *restrict gradient,
                               __global const int *restrict places,
                               __global float *restrict image OUTPUT_PARAMETER) {
  const int y = get_global_id(0), plane = get_global_id(1);
  if (y >= height || plane >= planes) return;
  gradient += plane * oh * ow;
  places += plane * oh * ow;
  for (int x = 0; x < width; ++x) {
    float sum = 0.0f;
    for (int oy = FIRST(y, kh, sy, py); oy < BEYOND(y, sy, py, oh); ++oy)
      for (int ox = FIRST(x, kw, sx, px); ox < BEYOND(x, sx, px, ow); ++ox)
        if (places[oy * ow + ox] == y * width + x) sum += gradient[oy * ow + ox];
    WRITE(image, (plane * height + y) * width + x, sum);
  }
}
