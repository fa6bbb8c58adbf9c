/* Convolutions in blocks as implicit matrix products. Macros: KH, KW, SY, SX, DY, DX (kernel, stride, dilation), and as
   needed RESIDUAL, OPERAND (1 if there is one), ACTIVATE1. */

/* A work item makes 4 neighbouring pixels of a row in one block of output channels.
   W: (output blocks, blocks of a group, KH, KW, 4 inputs, 4 outputs); bias and operand: 4 numbers an output block.
   Group g reads the input blocks from g * depth on. Image n uses the weights from n * apart float4s on. */
__kernel void convolution(__global const STORED *x, __global const float *w, __global const float *bias,
                          __global const STORED *residual, __global const float *operand, __global STORED *y,
                          int blocks, int depth, int height, int width, int out_blocks, int of_group, int out_height,
                          int out_width, int top, int left, int apart, int planes) {
    const int ox = get_global_id(0) * 4, oy = get_global_id(1), nb = get_global_id(2);
    const int n = nb / out_blocks, ob = nb - n * out_blocks;
    if (ox >= out_width || oy >= out_height || nb >= planes) return;
    const int first = n * blocks + ob / of_group * depth;
    float4 a0 = vload4(ob, bias), a1 = a0, a2 = a0, a3 = a0;
    int at = n * apart + ob * depth * KH * KW * 4;
    for (int ib = 0; ib < depth; ib++) {
        for (int ky = 0; ky < KH; ky++) {
            const int iy = oy * SY - top + ky * DY;
            if (iy < 0 || iy >= height) { at += KW * 4; continue; }
            const int row = ((first + ib) * height + iy) * width;
            for (int kx = 0; kx < KW; kx++, at += 4) {
                const int i0 = ox * SX - left + kx * DX, i1 = i0 + SX, i2 = i1 + SX, i3 = i2 + SX;
                const float4 w0 = vload4(at, w), w1 = vload4(at + 1, w), w2 = vload4(at + 2, w), w3 = vload4(at + 3, w);
                const float4 x0 = i0 >= 0 && i0 < width ? LOAD4(x, row + i0) : ALL4(0.0f);
                const float4 x1 = i1 >= 0 && i1 < width ? LOAD4(x, row + i1) : ALL4(0.0f);
                const float4 x2 = i2 >= 0 && i2 < width ? LOAD4(x, row + i2) : ALL4(0.0f);
                const float4 x3 = i3 >= 0 && i3 < width ? LOAD4(x, row + i3) : ALL4(0.0f);
                MULTIPLY(a0, x0, w0, w1, w2, w3);
                MULTIPLY(a1, x1, w0, w1, w2, w3);
                MULTIPLY(a2, x2, w0, w1, w2, w3);
                MULTIPLY(a3, x3, w0, w1, w2, w3);
            }
        }
    }
    const int to = (nb * out_height + oy) * out_width + ox;
#if RESIDUAL
    a0 += LOAD4(residual, to);
    if (ox + 1 < out_width) a1 += LOAD4(residual, to + 1);
    if (ox + 2 < out_width) a2 += LOAD4(residual, to + 2);
    if (ox + 3 < out_width) a3 += LOAD4(residual, to + 3);
#endif
#if OPERAND
    const float4 p = vload4(ob, operand);
#else
    const float4 p = ALL4(0.0f);
#endif
    STORE4(activate4(a0, p), y, to);
    if (ox + 1 < out_width) STORE4(activate4(a1, p), y, to + 1);
    if (ox + 2 < out_width) STORE4(activate4(a2, p), y, to + 2);
    if (ox + 3 < out_width) STORE4(activate4(a3, p), y, to + 3);
}

/* Each channel by itself. W: (blocks, KH, KW, 4). */
__kernel void depthwise(__global const STORED *x, __global const float *w, __global const float *bias,
                        __global const STORED *residual, __global const float *operand, __global STORED *y, int blocks,
                        int height, int width, int out_height, int out_width, int top, int left,
                        int planes) {
    const int ox = get_global_id(0) * 4, oy = get_global_id(1), nb = get_global_id(2);
    if (ox >= out_width || oy >= out_height || nb >= planes) return;
    const int ob = nb % blocks;
    float4 a0 = vload4(ob, bias), a1 = a0, a2 = a0, a3 = a0;
    for (int ky = 0; ky < KH; ky++) {
        const int iy = oy * SY - top + ky * DY;
        if (iy < 0 || iy >= height) continue;
        const int row = (nb * height + iy) * width;
        for (int kx = 0; kx < KW; kx++) {
            const int i0 = ox * SX - left + kx * DX, i1 = i0 + SX, i2 = i1 + SX, i3 = i2 + SX;
            const float4 f = vload4((ob * KH + ky) * KW + kx, w);
            if (i0 >= 0 && i0 < width) a0 += f * LOAD4(x, row + i0);
            if (i1 >= 0 && i1 < width) a1 += f * LOAD4(x, row + i1);
            if (i2 >= 0 && i2 < width) a2 += f * LOAD4(x, row + i2);
            if (i3 >= 0 && i3 < width) a3 += f * LOAD4(x, row + i3);
        }
    }
    const int to = (nb * out_height + oy) * out_width + ox;
#if RESIDUAL
    a0 += LOAD4(residual, to);
    if (ox + 1 < out_width) a1 += LOAD4(residual, to + 1);
    if (ox + 2 < out_width) a2 += LOAD4(residual, to + 2);
    if (ox + 3 < out_width) a3 += LOAD4(residual, to + 3);
#endif
#if OPERAND
    const float4 p = vload4(ob, operand);
#else
    const float4 p = ALL4(0.0f);
#endif
    STORE4(activate4(a0, p), y, to);
    if (ox + 1 < out_width) STORE4(activate4(a1, p), y, to + 1);
    if (ox + 2 < out_width) STORE4(activate4(a2, p), y, to + 2);
    if (ox + 3 < out_width) STORE4(activate4(a3, p), y, to + 3);
}

/* Groups that are no multiples of four channels: one pixel of one block of outputs, each channel from its own group.
   W: (filters, group_channels, KH, KW). */
__kernel void grouped(__global const STORED *x, __global const float *w, __global const float *bias,
                      __global const STORED *residual, __global const float *operand, __global STORED *y, int blocks,
                      int group_channels, int group_filters, int filters, int height, int width, int out_blocks,
                      int out_height, int out_width, int top, int left, int planes) {
    const int ox = get_global_id(0), oy = get_global_id(1), nb = get_global_id(2);
    if (ox >= out_width || oy >= out_height || nb >= planes) return;
    const int n = nb / out_blocks, ob = nb - n * out_blocks;
    float sums[4];
    for (int lane = 0; lane < 4; lane++) {
        const int m = ob * 4 + lane;
        float sum = 0.0f;
        if (m < filters) {
            sum = bias[m];
            for (int k = 0; k < group_channels; k++) {
                const int c = m / group_filters * group_channels + k;
                for (int ky = 0; ky < KH; ky++) {
                    const int iy = oy * SY - top + ky * DY;
                    if (iy < 0 || iy >= height) continue;
                    for (int kx = 0; kx < KW; kx++) {
                        const int ix = ox * SX - left + kx * DX;
                        if (ix < 0 || ix >= width) continue;
                        const int from = (((n * blocks + c / 4) * height + iy) * width + ix) * 4 + c % 4;
                        sum += w[((m * group_channels + k) * KH + ky) * KW + kx] * LOAD(x, from);
                    }
                }
            }
        }
        sums[lane] = sum;
    }
    float4 a = F4(sums[0], sums[1], sums[2], sums[3]);
    const int to = (nb * out_height + oy) * out_width + ox;
#if RESIDUAL
    a += LOAD4(residual, to);
#endif
#if OPERAND
    a = activate4(a, vload4(ob, operand));
#else
    a = activate4(a, ALL4(0.0f));
#endif
    STORE4(a, y, to);
}
