// What all files share: activations, and how a gradient is written: WRITE also brings it back
// through the activation that gave the output, KEEP does not.
// ACT, DACT: 0 none, 1 rectifier, 2 tanh, 3 logistic, 4 rectifier that ends at 6.
#ifndef ACT
#define ACT 0
#endif
#ifndef DACT
#define DACT 0
#endif
#ifndef ACCUMULATE
#define ACCUMULATE 0
#endif
#ifndef GROUP // work items that sum together
#define GROUP 1
#endif
#ifndef CHUNK // neighbouring values that one work item goes through
#define CHUNK 1
#endif

inline float activated(float v) {
#if ACT == 1
  return v < 0.0f ? 0.0f : v; // what is no number stays none
#elif ACT == 2
  return tanh(v);
#elif ACT == 3
  return 1.0f / (1.0f + exp(-v));
#elif ACT == 4
  return v < 0.0f ? 0.0f : v > 6.0f ? 6.0f : v;
#else
  return v;
#endif
}

// The slope of an activation by what it gave.
inline float slope(float y) {
#if DACT == 1
  return y > 0.0f ? 1.0f : 0.0f;
#elif DACT == 2
  return 1.0f - y * y;
#elif DACT == 3
  return y * (1.0f - y);
#elif DACT == 4
  return y > 0.0f && y < 6.0f ? 1.0f : 0.0f;
#else
  return 1.0f;
#endif
}

#if DACT
#define OUTPUT_PARAMETER , __global const float *restrict output
#define SLOPE(at) *slope(output[at])
#else
#define OUTPUT_PARAMETER
#define SLOPE(at)
#endif
#if ACCUMULATE
#define KEEP(to, at, value) to[at] += (value)
#define WRITE(to, at, value) to[at] = (to[at] + (value)) SLOPE(at)
#else
#define KEEP(to, at, value) to[at] = (value)
#define WRITE(to, at, value) to[at] = (value) SLOPE(at)
#endif

// The sum over a work group, in its first work item.
#if GROUP > 1
#define SHARED __local float shared[GROUP];
inline float together(float value, __local float *shared) {
  int me = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  shared[me] = value;
  for (int half_ = GROUP / 2; half_ > 0; half_ /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < half_) shared[me] += shared[me + half_];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return shared[0];
}
#define TOGETHER(value) together(value, shared)
#else
#define SHARED
#define TOGETHER(value) (value)
#endif
