// The optimizer's step of one parameter; `update` is made from the optimizer.
__kernel void update_each(int count, __global const float *restrict gradient UPDATE_PARAMETERS(c)) {
  for (int at = get_global_id(0) * CHUNK, end = min(at + CHUNK, count); at < end; ++at)
    update(at, gradient[at] UPDATE_ARGUMENTS(c));
}
