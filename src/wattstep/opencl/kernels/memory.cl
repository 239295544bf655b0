// What moves memory: elementwise kernels, a reduction, and one that does nothing. WIDTH floats an item
// at a time; `count` is in vectors of WIDTH, `rest` floats follow them.

#if WIDTH == 1
typedef float vec;
#else
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
typedef JOIN(float, WIDTH) vec;
#endif

#define EACH(at) for (int at = get_global_id(0); at < count; at += get_global_size(0))
#define EACH_OF_REST(at) \
    for (int at = count * WIDTH + get_global_id(0); at < count * WIDTH + rest; \
         at += get_global_size(0))

__kernel void nothing(__global float *restrict out) {}

// out = a
__kernel void copy(const int count, const int rest, __global const float *restrict a,
                   __global float *restrict out) {
    EACH(at) ((__global vec *)out)[at] = ((__global const vec *)a)[at];
    EACH_OF_REST(at) out[at] = a[at];
}

// out = a + s b: STREAM's triad
__kernel void triad(const int count, const int rest, __global const float *restrict a,
                    __global const float *restrict b, const float s, __global float *restrict out) {
    EACH(at) ((__global vec *)out)[at] =
        ((__global const vec *)a)[at] + s * ((__global const vec *)b)[at];
    EACH_OF_REST(at) out[at] = a[at] + s * b[at];
}

// partial[group] = sum of the group's share of a: of GROUP items, a power of two
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sum(const int count, const int rest, __global const float *restrict a,
         __global float *restrict partial) {
    __local float shared[GROUP];
    const int own = get_local_id(0);
    vec sums = (vec)(0.0f);
    EACH(at) sums += ((__global const vec *)a)[at];
    float total = 0.0f;
    const float *each = (const float *)&sums;
    for (int j = 0; j < WIDTH; ++j) total += each[j];
    EACH_OF_REST(at) total += a[at];
    shared[own] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_of = GROUP / 2; half_of > 0; half_of /= 2) {
        if (own < half_of) shared[own] += shared[own + half_of];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (own == 0) partial[get_group_id(0)] = shared[0];
}
