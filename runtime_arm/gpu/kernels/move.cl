/* Copies that change how a blob lies, and resampling. */

/* Plain float (as the processor has it) to blocks, and back. An item moves one float4. */
__kernel void pack(__global const float *x, __global STORED *y, int channels, int blocks, int pixels, int count) {
    const int i = get_global_id(0);
    if (i >= count) return;
    const int pixel = i % pixels, nb = i / pixels, n = nb / blocks, c = (nb - n * blocks) * 4;
    const int from = (n * channels + c) * pixels + pixel, left = channels - c;
    STORE4(F4(x[from], left > 1 ? x[from + pixels] : 0.0f, left > 2 ? x[from + 2 * pixels] : 0.0f,
              left > 3 ? x[from + 3 * pixels] : 0.0f), y, i);
}

__kernel void unpack(__global const STORED *x, __global float *y, int channels, int blocks, int pixels, int count) {
    const int i = get_global_id(0);
    if (i >= count) return;
    const int pixel = i % pixels, nb = i / pixels, n = nb / blocks, c = (nb - n * blocks) * 4;
    const int to = (n * channels + c) * pixels + pixel, left = channels - c;
    const float4 v = LOAD4(x, i);
    y[to] = v.x;
    if (left > 1) y[to + pixels] = v.y;
    if (left > 2) y[to + 2 * pixels] = v.z;
    if (left > 3) y[to + 3 * pixels] = v.w;
}

/* The same between blobs as they are stored. */
__kernel void to_blocks(__global const STORED *x, __global STORED *y, int channels, int blocks, int pixels, int count) {
    const int i = get_global_id(0);
    if (i >= count) return;
    const int pixel = i % pixels, nb = i / pixels, n = nb / blocks, c = (nb - n * blocks) * 4;
    const int from = (n * channels + c) * pixels + pixel, left = channels - c;
    STORE4(F4(LOAD(x, from), left > 1 ? LOAD(x, from + pixels) : 0.0f, left > 2 ? LOAD(x, from + 2 * pixels) : 0.0f,
              left > 3 ? LOAD(x, from + 3 * pixels) : 0.0f), y, i);
}

__kernel void to_plain(__global const STORED *x, __global STORED *y, int channels, int blocks, int pixels, int count) {
    const int i = get_global_id(0);
    if (i >= count) return;
    const int pixel = i % pixels, nb = i / pixels, n = nb / blocks, c = (nb - n * blocks) * 4;
    const int to = (n * channels + c) * pixels + pixel, left = channels - c;
    const float4 v = LOAD4(x, i);
    STORE(v.x, y, to);
    if (left > 1) STORE(v.y, y, to + pixels);
    if (left > 2) STORE(v.z, y, to + 2 * pixels);
    if (left > 3) STORE(v.w, y, to + 3 * pixels);
}

/* float as the processor has it to plain as it is stored, and back. */
__kernel void narrow(__global const float *x, __global STORED *y, int count) {
    const int i = get_global_id(0);
    if (i < count) STORE(x[i], y, i);
}

__kernel void widen(__global const STORED *x, __global float *y, int count) {
    const int i = get_global_id(0);
    if (i < count) y[i] = LOAD(x, i);
}

/* Runs of numbers, in any layout: run r of length n goes from r * n to `to` + r * apart. */
__kernel void copy_runs(__global const STORED *x, __global STORED *y, int count, int n, int to, int apart) {
    const int i = get_global_id(0);
    if (i >= count) return;
    STORE(LOAD(x, i), y, to + i / n * apart + i % n);
}

/* y (n0 ... n5) = x, each dimension with its own stride in x, from element `from` on. */
__kernel void permute(__global const STORED *x, __global STORED *y, int count, int n1, int n2, int n3, int n4, int n5,
                      int s0, int s1, int s2, int s3, int s4, int s5, int from) {
    const int i = get_global_id(0);
    if (i >= count) return;
    int rest = i;
    const int d5 = rest % n5; rest /= n5;
    const int d4 = rest % n4; rest /= n4;
    const int d3 = rest % n3; rest /= n3;
    const int d2 = rest % n2; rest /= n2;
    const int d1 = rest % n1, d0 = rest / n1;
    STORE(LOAD(x, from + d0 * s0 + d1 * s1 + d2 * s2 + d3 * s3 + d4 * s4 + d5 * s5), y, i);
}

/* Rows and columns resampled, in blocks: the sum over taps of weights[tap, o] * x[indices[tap, o]]. */
__kernel void resample(__global const STORED *x, __global const int *rows, __global const float *row_weights,
                       __global const int *columns, __global const float *column_weights, __global STORED *y,
                       int planes, int height, int width, int out_height, int out_width, int row_taps,
                       int column_taps) {
    const int ox = get_global_id(0), oy = get_global_id(1), plane = get_global_id(2);
    if (ox >= out_width || oy >= out_height || plane >= planes) return;
    float4 sum = ALL4(0.0f);
    for (int ky = 0; ky < row_taps; ky++) {
        const int row = (plane * height + rows[ky * out_height + oy]) * width;
        float4 part = ALL4(0.0f);
        for (int kx = 0; kx < column_taps; kx++)
            part += LOAD4(x, row + columns[kx * out_width + ox]) * column_weights[kx * out_width + ox];
        sum += part * row_weights[ky * out_height + oy];
    }
    STORE4(sum, y, (plane * out_height + oy) * out_width + ox);
}
