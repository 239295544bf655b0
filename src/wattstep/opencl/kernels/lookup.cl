// For each sample: the rows of a matrix that are nearest to it, and where it ends in decision trees.

#ifdef KEEP
// The KEEP least of |b|² - 2ab among `nodes` rows b, ascending, and which rows they are.
//
// products: ab, a column a sample, so that neighbouring items read neighbouring numbers.
__kernel void nearest(const int samples, const int nodes, __global const float *restrict products,
                      __global const float *restrict norms, __global int *restrict found,
                      __global float *restrict ranked) {
    const int i = get_global_id(0);
    if (i >= samples) return;
    float least[KEEP];
    int which[KEEP];
    for (int k = 0; k < KEEP; ++k) {
        least[k] = INFINITY;
        which[k] = nodes;
    }
    for (int j = 0; j < nodes; ++j) {
        const float rank = norms[j] - 2.0f * products[j * samples + i];
        if (!(rank < least[KEEP - 1])) continue;
        int at = KEEP - 1;
        for (; at > 0 && rank < least[at - 1]; --at) {
            least[at] = least[at - 1];
            which[at] = which[at - 1];
        }
        least[at] = rank;
        which[at] = j;
    }
    for (int k = 0; k < KEEP; ++k) {
        found[i * KEEP + k] = which[k];
        ranked[i * KEEP + k] = least[k];
    }
}
#endif

// The node of each tree at which a sample ends; leaves are their own children.
//
// Values and limits are integers in the order of the floats that they stand for, so that comparisons are the
// same on a device that takes the least floats for 0. nodes: feature, limit, left, right.
__kernel void leaves(const int samples, const int trees, const int features,
                     __global const int *restrict values, __global const int4 *restrict nodes,
                     __global const int *restrict roots, __global const int *restrict depths,
                     __global int *restrict found) {
    const int i = get_global_id(0), tree = get_global_id(1);
    if (i >= samples) return;
    int at = roots[tree];
    for (int step = depths[tree]; step > 0; --step) {
        const int4 node = nodes[at];
        at = values[i * features + node.x] <= node.y ? node.z : node.w;
    }
    found[i * trees + tree] = at;
}
