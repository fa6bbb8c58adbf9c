/* Fully connected layers and softmax, plain. Macros: GROUP, LOGARITHM (of the softmax), RESIDUAL, OPERAND, ACTIVATE1. */

/* A group makes four outputs of one row of X (rows, depth). W: (output blocks, depth, 4). */
__kernel void fully_connected(__global const STORED *x, __global const float *w, __global const float *bias,
                              __global const STORED *residual, __global const float *operand, __global STORED *y,
                              int depth, int outputs) {
    __local float parts[GROUP * 4];
    const int item = get_local_id(0), block = get_group_id(0), row = get_global_id(1);
    float4 sum = ALL4(0.0f);
    for (int k = item; k < depth; k += GROUP) sum += vload4(block * depth + k, w) * LOAD(x, row * depth + k);
    vstore4(sum, item, parts);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = GROUP / 2; half_way > 0; half_way /= 2) {
        if (item < half_way) vstore4(vload4(item, parts) + vload4(item + half_way, parts), item, parts);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const int m = block * 4 + item;
    if (item < 4 && m < outputs) {
        float v = parts[item] + bias[m];
#if RESIDUAL
        v += LOAD(residual, row * outputs + m);
#endif
#if OPERAND
        v = ACTIVATE1(v, operand[m]);
#else
        v = ACTIVATE1(v, 0.0f);
#endif
        STORE(v, y, row * outputs + m);
    }
}

#if LOGARITHM
#define SOFTMAX(v, top, sum) ((v) - (top) - log(sum))
#else
#define SOFTMAX(v, top, sum) (exp((v) - (top)) / (sum))
#endif

/* X as (rows, n, inner): one item normalises n numbers. */
__kernel void softmax(__global const STORED *x, __global STORED *y, int rows, int n, int inner) {
    const int i = get_global_id(0);
    if (i >= rows * inner) return;
    const int from = i / inner * n * inner + i % inner;
    float top = LOAD(x, from), sum = 0.0f;
    for (int k = 1; k < n; k++) top = larger(top, LOAD(x, from + k * inner));
    for (int k = 0; k < n; k++) sum += exp(LOAD(x, from + k * inner) - top);
    for (int k = 0; k < n; k++) STORE(SOFTMAX(LOAD(x, from + k * inner), top, sum), y, from + k * inner);
}

/* The same, with a group for every n numbers. */
__kernel void softmax_wide(__global const STORED *x, __global STORED *y, int rows, int n, int inner) {
    __local float parts[GROUP];
    const int item = get_local_id(0), i = get_group_id(0);
    const int from = i / inner * n * inner + i % inner;
    float top = LOAD(x, from), sum = 0.0f;
    for (int k = item; k < n; k += GROUP) top = larger(top, LOAD(x, from + k * inner));
    parts[item] = top;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = GROUP / 2; half_way > 0; half_way /= 2) {
        if (item < half_way) parts[item] = larger(parts[item], parts[item + half_way]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    top = parts[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = item; k < n; k += GROUP) sum += exp(LOAD(x, from + k * inner) - top);
    parts[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = GROUP / 2; half_way > 0; half_way /= 2) {
        if (item < half_way) parts[item] += parts[item + half_way];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = parts[0];
    for (int k = item; k < n; k += GROUP) STORE(SOFTMAX(LOAD(x, from + k * inner), top, sum), y, from + k * inner);
}
