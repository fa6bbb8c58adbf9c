/* Caffe's way, plain: im2col writes the pixels under the kernel into columns, then a product of matrices follows.
   Macros: TILE, and as needed RESIDUAL, OPERAND, ACTIVATE1. */

/* col: (channels * kernel, out_height * out_width); a work item writes the column of one pixel of one channel. */
__kernel void im2col(__global const STORED *x, __global float *col, int from, int channels, int height, int width,
                     int kernel_height, int kernel_width, int out_height, int out_width, int stride_y, int stride_x,
                     int top, int left, int dilation_y, int dilation_x) {
    const int pixel = get_global_id(0), c = get_global_id(1), pixels = out_height * out_width;
    if (pixel >= pixels || c >= channels) return;
    const int oy = pixel / out_width, ox = pixel - oy * out_width;
    int to = c * kernel_height * kernel_width * pixels + pixel;
    for (int ky = 0; ky < kernel_height; ky++) {
        const int iy = oy * stride_y - top + ky * dilation_y;
        for (int kx = 0; kx < kernel_width; kx++, to += pixels) {
            const int ix = ox * stride_x - left + kx * dilation_x;
            const int inside = iy >= 0 && iy < height && ix >= 0 && ix < width;
            col[to] = inside ? LOAD(x, from + (c * height + iy) * width + ix) : 0.0f;
        }
    }
}

/* Y (rows, columns) = activation(A (rows, depth) B (depth, columns) + bias + residual). Groups of TILE x TILE items;
   each makes a 4 x 4 part, out of tiles in local memory. */
#define SPAN (TILE * 4)
__kernel void product(__global const float *a, __global const float *b, __global const float *bias,
                      __global const STORED *residual, __global const float *operand, __global STORED *y, int a_from,
                      int rows, int columns, int depth, int row_from, int y_from) {
    __local float left[TILE * SPAN];
    __local float right[TILE * SPAN];
    const int lx = get_local_id(0), ly = get_local_id(1);
    const int column = get_group_id(0) * SPAN, row = get_group_id(1) * SPAN;
    float sums[4][4];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sums[i][j] = 0.0f;
    for (int k = 0; k < depth; k += TILE) {
        for (int i = 0; i < 4; i++) {
            const int r = row + i * TILE + ly, c = column + i * TILE + lx;
            left[lx * SPAN + i * TILE + ly] = r < rows && k + lx < depth ? a[a_from + r * depth + k + lx] : 0.0f;
            right[ly * SPAN + i * TILE + lx] = c < columns && k + ly < depth ? b[(k + ly) * columns + c] : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t = 0; t < TILE; t++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sums[i][j] += left[t * SPAN + i * TILE + ly] * right[t * SPAN + j * TILE + lx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 4; i++) {
        const int r = row + i * TILE + ly;
        for (int j = 0; j < 4; j++) {
            const int c = column + j * TILE + lx;
            if (r >= rows || c >= columns) continue;
            const int to = y_from + r * columns + c;
            float sum = sums[i][j] + bias[row_from + r];
#if RESIDUAL
            sum += LOAD(residual, to);
#endif
#if OPERAND
            const float p = operand[row_from + r];
#else
            const float p = 0.0f;
#endif
            STORE(ACTIVATE1(sum, p), y, to);
        }
    }
}
