/* Winograd's F(4x4, 3x3): 36 products for 16 outputs of a 3 x 3 convolution. Lavin and Gray, Fast Algorithms for
   Convolutional Neural Networks (2016), with the points 0, 1, -1, 2, -2. Between the kernels the numbers are float. */

/* V: (36, blocks, tiles, 4); a work item transforms the 6 x 6 pixels of one tile. */
__kernel void transform_input(__global const STORED *x, __global float *v, int blocks, int height, int width, int top,
                              int left, int tiles_y, int tiles_x, int tiles) {
    const int tile = get_global_id(0), block = get_global_id(1);
    if (tile >= tiles || block >= blocks) return;
    const int n = tile / (tiles_y * tiles_x), place = tile - n * tiles_y * tiles_x;
    const int y0 = place / tiles_x * 4 - top, x0 = place % tiles_x * 4 - left;
    float4 t[36];
    for (int j = 0; j < 6; j++) {
        float4 d[6];
        const int ix = x0 + j;
        for (int i = 0; i < 6; i++) {
            const int iy = y0 + i;
            const int inside = iy >= 0 && iy < height && ix >= 0 && ix < width;
            d[i] = inside ? LOAD4(x, ((n * blocks + block) * height + iy) * width + ix) : ALL4(0.0f);
        }
        t[j] = d[0] * 4.0f - d[2] * 5.0f + d[4];
        t[6 + j] = d[4] + d[3] - (d[2] + d[1]) * 4.0f;
        t[12 + j] = d[4] - d[3] - (d[2] - d[1]) * 4.0f;
        t[18 + j] = d[4] - d[2] + (d[3] - d[1]) * 2.0f;
        t[24 + j] = d[4] - d[2] - (d[3] - d[1]) * 2.0f;
        t[30 + j] = d[1] * 4.0f - d[3] * 5.0f + d[5];
    }
    for (int i = 0; i < 6; i++) {
        const float4 d0 = t[i * 6], d1 = t[i * 6 + 1], d2 = t[i * 6 + 2], d3 = t[i * 6 + 3], d4 = t[i * 6 + 4];
        const float4 d5 = t[i * 6 + 5];
        const int step = blocks * tiles, to = i * 6 * step + block * tiles + tile;
        vstore4(d0 * 4.0f - d2 * 5.0f + d4, to, v);
        vstore4(d4 + d3 - (d2 + d1) * 4.0f, to + step, v);
        vstore4(d4 - d3 - (d2 - d1) * 4.0f, to + 2 * step, v);
        vstore4(d4 - d2 + (d3 - d1) * 2.0f, to + 3 * step, v);
        vstore4(d4 - d2 - (d3 - d1) * 2.0f, to + 4 * step, v);
        vstore4(d1 * 4.0f - d3 * 5.0f + d5, to + 5 * step, v);
    }
}

/* M: (36, blocks, tiles, 4) to Y in blocks; a work item makes the 4 x 4 pixels of one tile. */
__kernel void transform_output(__global const float *m, __global const float *bias, __global const STORED *residual,
                               __global const float *operand, __global STORED *y, int blocks, int out_height,
                               int out_width, int tiles_y, int tiles_x, int tiles) {
    const int tile = get_global_id(0), block = get_global_id(1);
    if (tile >= tiles || block >= blocks) return;
    const int n = tile / (tiles_y * tiles_x), place = tile - n * tiles_y * tiles_x;
    const int y0 = place / tiles_x * 4, x0 = place % tiles_x * 4, step = blocks * tiles;
    float4 t[24];
    for (int j = 0; j < 6; j++) {
        const int from = j * step + block * tiles + tile;
        const float4 m0 = vload4(from, m), m1 = vload4(from + 6 * step, m), m2 = vload4(from + 12 * step, m);
        const float4 m3 = vload4(from + 18 * step, m), m4 = vload4(from + 24 * step, m);
        const float4 m5 = vload4(from + 30 * step, m);
        t[j] = m0 + m1 + m2 + m3 + m4;
        t[6 + j] = m1 - m2 + (m3 - m4) * 2.0f;
        t[12 + j] = m1 + m2 + (m3 + m4) * 4.0f;
        t[18 + j] = m1 - m2 + (m3 - m4) * 8.0f + m5;
    }
    const float4 b = vload4(block, bias);
#if OPERAND
    const float4 p = vload4(block, operand);
#else
    const float4 p = ALL4(0.0f);
#endif
    for (int i = 0; i < 4; i++) {
        if (y0 + i >= out_height) continue;
        const float4 m0 = t[i * 6], m1 = t[i * 6 + 1], m2 = t[i * 6 + 2], m3 = t[i * 6 + 3], m4 = t[i * 6 + 4];
        const float4 m5 = t[i * 6 + 5];
        float4 out[4];
        out[0] = m0 + m1 + m2 + m3 + m4 + b;
        out[1] = m1 - m2 + (m3 - m4) * 2.0f + b;
        out[2] = m1 + m2 + (m3 + m4) * 4.0f + b;
        out[3] = m1 - m2 + (m3 - m4) * 8.0f + m5 + b;
        const int to = ((n * blocks + block) * out_height + y0 + i) * out_width + x0;
        for (int j = 0; j < 4; j++) {
            if (x0 + j >= out_width) continue;
#if RESIDUAL
            out[j] += LOAD4(residual, to + j);
#endif
            STORE4(activate4(out[j], p), y, to + j);
        }
    }
}
