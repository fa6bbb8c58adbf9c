/* Pools in blocks. Macros: MAXIMUM (1, or 0 for the mean), ACTIVATE1. */

/* divisors: 1 / the number of pixels that count, (out_height, out_width). */
__kernel void pool(__global const STORED *x, __global const float *divisors, __global STORED *y, int planes, int height,
                   int width, int out_height, int out_width, int kernel_height, int kernel_width, int stride_y,
                   int stride_x, int top, int left, int dilation_y, int dilation_x) {
    const int ox = get_global_id(0), oy = get_global_id(1), plane = get_global_id(2);
    if (ox >= out_width || oy >= out_height || plane >= planes) return;
#if MAXIMUM
    float4 best = ALL4(-INFINITY);
#else
    float4 best = ALL4(0.0f);
#endif
    for (int ky = 0; ky < kernel_height; ky++) {
        const int iy = oy * stride_y - top + ky * dilation_y;
        if (iy < 0 || iy >= height) continue;
        for (int kx = 0; kx < kernel_width; kx++) {
            const int ix = ox * stride_x - left + kx * dilation_x;
            if (ix < 0 || ix >= width) continue;
            const float4 v = LOAD4(x, (plane * height + iy) * width + ix);
#if MAXIMUM
            best = larger4(v, best);
#else
            best += v;
#endif
        }
    }
#if !MAXIMUM
    best = best * divisors[oy * out_width + ox];
#endif
    STORE4(activate4(best, ALL4(0.0f)), y, (plane * out_height + oy) * out_width + ox);
}

/* The mean or the maximum of a whole plane; one group of GROUP items a plane. */
__kernel void global_pool(__global const STORED *x, __global STORED *y, int planes, int pixels) {
    __local float parts[GROUP * 4];
    const int item = get_local_id(0), plane = get_group_id(0);
#if MAXIMUM
    float4 best = ALL4(-INFINITY);
#else
    float4 best = ALL4(0.0f);
#endif
    for (int i = item; i < pixels; i += GROUP) {
        const float4 v = LOAD4(x, plane * pixels + i);
#if MAXIMUM
        best = larger4(v, best);
#else
        best += v;
#endif
    }
    vstore4(best, item, parts);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = GROUP / 2; half_way > 0; half_way /= 2) {
        if (item < half_way) {
            const float4 one = vload4(item, parts), other = vload4(item + half_way, parts);
#if MAXIMUM
            vstore4(larger4(one, other), item, parts);
#else
            vstore4(one + other, item, parts);
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0) {
        float4 all = vload4(0, parts);
#if !MAXIMUM
        all = all * (1.0f / pixels);
#endif
        STORE4(activate4(all, ALL4(0.0f)), y, plane);
    }
}
