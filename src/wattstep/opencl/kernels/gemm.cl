// C[m,n] = op(A)[m,k] op(B)[k,n], row-major float32, of any shape.
//
// Constants: KIND, which kernel is built: 0 naive, 1 tiled, 2 blocked, 3 registers, 4 packed; TRANS_A
// (A is stored [k,m]), TRANS_B (B is stored [n,k]), each 0 or 1; GX and GY, work items of a group along
// columns and rows; ROWS, VECTORS of WIDTH floats of C in registers of an item; DEPTH, steps along k
// that a tile holds or a loop does at a time.

#define COLUMNS (VECTORS * WIDTH)
#if WIDTH == 1
typedef float vec;
#define LOAD(p) (*(p))
#define STORE(v, p) (*(p) = (v))
#else
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
typedef JOIN(float, WIDTH) vec;
#define LOAD(p) JOIN(vload, WIDTH)(0, p)
#define STORE(v, p) JOIN(vstore, WIDTH)(v, 0, p)
#endif

#if TRANS_A
#define A_AT(row, p) a[(p) * m + (row)]
#else
#define A_AT(row, p) a[(row) * k + (p)]
#endif
#if TRANS_B
#define B_AT(p, column) b[(column) * k + (p)]
#else
#define B_AT(p, column) b[(p) * n + (column)]
#endif

#define SIZES const int m, const int n, const int k
#define OPERANDS \
    __global const float *restrict a, const int a_at, __global const float *restrict b, const int b_at
#define RESULT __global float *restrict c, const int c_at

#if KIND >= 2
// The sums of an item, which stay in registers where all loops over them are unrolled.
static void clear(vec sums[ROWS][VECTORS]) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) sums[i][j] = (vec)(0.0f);
}

// A step along k: each kernel has its own LEFT(i, p), a float of op(A), and RIGHT(j, p), a vector of op(B).
#define STEP(p) \
    { \
        vec right[VECTORS]; \
        for (int j = 0; j < VECTORS; ++j) right[j] = RIGHT(j, p); \
        for (int i = 0; i < ROWS; ++i) { \
            const vec left = (vec)(LEFT(i, p)); \
            for (int j = 0; j < VECTORS; ++j) sums[i][j] = fma(left, right[j], sums[i][j]); \
        } \
    }

#define ALL_STEPS \
    { \
        int p = 0; \
        for (; p + DEPTH <= k; p += DEPTH) \
            _Pragma("unroll") for (int q = 0; q < DEPTH; ++q) STEP(p + q); \
        for (; p < k; ++p) STEP(p); \
    }

// From `row` and `column` on; a vector begins `apart` columns after the one before it.
static void store(vec sums[ROWS][VECTORS], __global float *c, int m, int n, int row, int column,
                  int apart) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
            const int at = column + j * apart;
            if (row + i >= m || at >= n) continue;
            __global float *place = c + (row + i) * n + at;
            if (at + WIDTH <= n) {
                STORE(sums[i][j], place);
            } else {
                const float *values = (const float *)&sums[i][j];
                for (int l = 0; l < WIDTH && at + l < n; ++l) place[l] = values[l];
            }
        }
}
#endif

#if KIND == 0
// One item an element, everything from global memory.
__kernel void gemm_naive(SIZES, OPERANDS, RESULT) {
    const int column = get_global_id(0), row = get_global_id(1);
    if (row >= m || column >= n) return;
    a += a_at, b += b_at, c += c_at;
    float sum = 0.0f;
    for (int p = 0; p < k; ++p) sum += A_AT(row, p) * B_AT(p, column);
    c[row * n + column] = sum;
}
#endif

#if KIND == 1
// One item an element, tiles of A and B in local memory: GX = GY = DEPTH.
__kernel __attribute__((reqd_work_group_size(GX, GY, 1)))
void gemm_tiled(SIZES, OPERANDS, RESULT) {
    __local float tile_a[GY][DEPTH];
    __local float tile_b[DEPTH][GX];
    const int x = get_local_id(0), y = get_local_id(1);
    const int column = get_group_id(0) * GX + x, row = get_group_id(1) * GY + y;
    a += a_at, b += b_at, c += c_at;
    float sum = 0.0f;
    for (int begin = 0; begin < k; begin += DEPTH) {
        tile_a[y][x] = row < m && begin + x < k ? A_AT(row, begin + x) : 0.0f;
        tile_b[y][x] = begin + y < k && column < n ? B_AT(begin + y, column) : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < DEPTH; ++p) sum += tile_a[y][p] * tile_b[p][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
#endif

#if KIND == 2
#define LEFT(i, p) tile_a[p][y * ROWS + i]
#define RIGHT(j, p) LOAD(&tile_b[p][(j * GX + x) * WIDTH])

// Tiles in local memory, and ROWS x COLUMNS elements in the registers of an item.
__kernel __attribute__((reqd_work_group_size(GX, GY, 1)))
void gemm_blocked(SIZES, OPERANDS, RESULT) {
    __local float tile_a[DEPTH][GY * ROWS];
    __local float tile_b[DEPTH][GX * COLUMNS];
    const int x = get_local_id(0), y = get_local_id(1), own = y * GX + x;
    const int first_column = get_group_id(0) * (GX * COLUMNS);
    const int first_row = get_group_id(1) * (GY * ROWS);
    a += a_at, b += b_at, c += c_at;
    vec sums[ROWS][VECTORS];
    clear(sums);
    for (int begin = 0; begin < k; begin += DEPTH) {
        for (int at = own; at < DEPTH * GY * ROWS; at += GX * GY) {
            // Along what is stored side by side, so that neighbours read neighbours.
#if TRANS_A
            const int i = at % (GY * ROWS), p = at / (GY * ROWS);
#else
            const int i = at / DEPTH, p = at % DEPTH;
#endif
            tile_a[p][i] =
                first_row + i < m && begin + p < k ? A_AT(first_row + i, begin + p) : 0.0f;
        }
        for (int at = own; at < DEPTH * GX * COLUMNS; at += GX * GY) {
#if TRANS_B
            const int j = at / DEPTH, p = at % DEPTH;
#else
            const int j = at % (GX * COLUMNS), p = at / (GX * COLUMNS);
#endif
            tile_b[p][j] =
                first_column + j < n && begin + p < k ? B_AT(begin + p, first_column + j) : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 4
        for (int p = 0; p < DEPTH; ++p) STEP(p);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    store(sums, c, m, n, first_row + y * ROWS, first_column + x * WIDTH, GX * WIDTH);
}
#endif

#if KIND == 3
// WIDTH elements of a row of op(B), 0 beyond its end.
static vec right_of(__global const float *b, int n, int k, int p, int column) {
#if !TRANS_B
    if (column + WIDTH <= n) return LOAD(&B_AT(p, column));
#endif
    vec values;
    float *each = (float *)&values;
    for (int j = 0; j < WIDTH; ++j) each[j] = column + j < n ? B_AT(p, column + j) : 0.0f;
    return values;
}

// Rows beyond the last compute the last once more, and are not stored.
#define LEFT(i, p) A_AT(min(row + i, m - 1), p)
#define RIGHT(j, p) right_of(b, n, k, p, column + (j) * WIDTH)

// ROWS x COLUMNS elements in registers, straight from global memory.
__kernel __attribute__((reqd_work_group_size(GX, GY, 1)))
void gemm_registers(SIZES, OPERANDS, RESULT) {
    const int column = get_global_id(0) * COLUMNS, row = get_global_id(1) * ROWS;
    if (row >= m || column >= n) return;
    a += a_at, b += b_at, c += c_at;
    vec sums[ROWS][VECTORS];
    clear(sums);
    ALL_STEPS
    store(sums, c, m, n, row, column, WIDTH);
}
#endif

#if KIND == 4
// Panels of ROWS rows of op(A), for each step along k side by side; 0 beyond the last row.
__kernel void gemm_pack_a(SIZES, OPERANDS, __global float *restrict panels) {
    const int panel = get_global_id(0), first = panel * ROWS;
    a += a_at;
    __global float *place = panels + panel * k * ROWS;
    if (first + ROWS <= m) {
        for (int p = 0; p < k; ++p)
            for (int i = 0; i < ROWS; ++i) place[p * ROWS + i] = A_AT(first + i, p);
    } else {
        for (int p = 0; p < k; ++p)
            for (int i = 0; i < ROWS; ++i)
                place[p * ROWS + i] = first + i < m ? A_AT(first + i, p) : 0.0f;
    }
}

// Panels of COLUMNS columns of op(B), likewise.
__kernel void gemm_pack_b(SIZES, OPERANDS, __global float *restrict panels) {
    const int panel = get_global_id(0), first = panel * COLUMNS;
    b += b_at;
    __global float *place = panels + panel * k * COLUMNS;
    if (first + COLUMNS <= n) {
        for (int p = 0; p < k; ++p)
            for (int j = 0; j < COLUMNS; ++j) place[p * COLUMNS + j] = B_AT(p, first + j);
    } else {
        for (int p = 0; p < k; ++p)
            for (int j = 0; j < COLUMNS; ++j)
                place[p * COLUMNS + j] = first + j < n ? B_AT(p, first + j) : 0.0f;
    }
}

#define LEFT(i, p) left_of[(p) * ROWS + (i)]
#define RIGHT(j, p) right_of[(p) * VECTORS + (j)]

// ROWS x COLUMNS elements in registers, from packed panels: no bounds, and one order for all layouts.
__kernel __attribute__((reqd_work_group_size(GX, GY, 1)))
void gemm_packed(SIZES, __global const float *restrict panels_a,
                 __global const float *restrict panels_b, RESULT) {
    // Neighbours share a panel of B, which stays in a cache.
    const int panel_a = get_global_id(0), panel_b = get_global_id(1);
    const int row = panel_a * ROWS, column = panel_b * COLUMNS;
    if (row >= m || column >= n) return;
    __global const float *left_of = panels_a + panel_a * k * ROWS;
    __global const vec *right_of = (__global const vec *)(panels_b + panel_b * k * COLUMNS);
    c += c_at;
    vec sums[ROWS][VECTORS];
    clear(sums);
    ALL_STEPS
    store(sums, c, m, n, row, column, WIDTH);
}
#endif
