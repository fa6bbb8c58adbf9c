/* Functions of one or two numbers. Macros: ACTIVATE1 (unary), COMBINE1 (binary). */

#ifndef COMBINE1
#define COMBINE1(a, b) (a)
#endif

/* Any layout, element by element: unary, with a Blocks blob as rows of numbers. In blocks the channels that only fill up
   become 0; channels is 0 for plain blobs. pixels: of a plane. */
__kernel void unary(__global const STORED *x, __global STORED *y, int count, int channels, int blocks, int pixels) {
    const int i = get_global_id(0);
    if (i >= count) return;
    const int fills = channels > 0 && i / 4 / pixels % blocks * 4 + i % 4 >= channels;
    const float v = LOAD(x, i);
    STORE(fills ? 0.0f : ACTIVATE1(v, 0.0f), y, i);
}

/* Up to six dimensions; a stride of 0 stretches. (n0 ... n5): the shape of y. */
__kernel void binary(__global const STORED *a, __global const STORED *b, __global STORED *y, int count, int n1, int n2,
                     int n3, int n4, int n5, int a0, int a1, int a2, int a3, int a4, int a5, int b0, int b1, int b2,
                     int b3, int b4, int b5) {
    const int i = get_global_id(0);
    if (i >= count) return;
    int rest = i;
    const int d5 = rest % n5; rest /= n5;
    const int d4 = rest % n4; rest /= n4;
    const int d3 = rest % n3; rest /= n3;
    const int d2 = rest % n2; rest /= n2;
    const int d1 = rest % n1, d0 = rest / n1;
    const float u = LOAD(a, d0 * a0 + d1 * a1 + d2 * a2 + d3 * a3 + d4 * a4 + d5 * a5);
    const float v = LOAD(b, d0 * b0 + d1 * b1 + d2 * b2 + d3 * b3 + d4 * b4 + d5 * b5);
    STORE(ACTIVATE1(COMBINE1(u, v), 0.0f), y, i);
}

/* In blocks; strides count float4s. A channel stride of 0 means one channel for all, and then lane 0 is used if
   a_splat or b_splat says so. Channels that fill up become 0. */
__kernel void binary_blocks(__global const STORED *a, __global const STORED *b, __global STORED *y, int batch,
                            int channels, int blocks, int height, int width, int an, int ac, int ay, int ax, int bn,
                            int bc, int by, int bx, int a_splat, int b_splat) {
    const int i = get_global_id(0);
    if (i >= batch * blocks * height * width) return;
    int rest = i;
    const int ix = rest % width; rest /= width;
    const int iy = rest % height; rest /= height;
    const int ib = rest % blocks, n = rest / blocks;
    float4 u = LOAD4(a, n * an + ib * ac + iy * ay + ix * ax), v = LOAD4(b, n * bn + ib * bc + iy * by + ix * bx);
    if (a_splat) u = ALL4(u.x);
    if (b_splat) v = ALL4(v.x);
    const int left = channels - ib * 4;
    const float r0 = COMBINE1(u.x, v.x), r1 = COMBINE1(u.y, v.y), r2 = COMBINE1(u.z, v.z), r3 = COMBINE1(u.w, v.w);
    STORE4(F4(ACTIVATE1(r0, 0.0f), left > 1 ? ACTIVATE1(r1, 0.0f) : 0.0f, left > 2 ? ACTIVATE1(r2, 0.0f) : 0.0f,
              left > 3 ? ACTIVATE1(r3, 0.0f) : 0.0f), y, i);
}

/* y = activation(x * scale + shift + residual), a number of each a channel. */
__kernel void affine(__global const STORED *x, __global const float *scale, __global const float *shift,
                     __global const STORED *residual, __global const float *operand, __global STORED *y, int count,
                     int blocks, int pixels) {
    const int i = get_global_id(0);
    if (i >= count) return;
    const int block = i / pixels % blocks;
    float4 v = LOAD4(x, i) * vload4(block, scale) + vload4(block, shift);
#if RESIDUAL
    v += LOAD4(residual, i);
#endif
#if OPERAND
    STORE4(activate4(v, vload4(block, operand)), y, i);
#else
    STORE4(activate4(v, ALL4(0.0f)), y, i);
#endif
}
