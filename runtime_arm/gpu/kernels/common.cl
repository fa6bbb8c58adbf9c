/* What all kernels share. They are OpenCL C, and CUDA C++ behind the macros of cuda/prelude.py: so no vector literals
   but F4, no swizzles, no casts of vectors.

   Blocks: a blob (N, C, H, W) lies as (N, ceil(C / 4), H, W, 4): four channels side by side. Channels that fill up the
   last block hold finite numbers of no meaning. Plain: a blob lies as NumPy has it, in C order.
   Blobs are stored as float, or as half if HALF is 1; arithmetic is float. */

#ifndef HALF
#define HALF 0
#endif

#if HALF
#define STORED half
#define LOAD4(p, i) vload_half4(i, p)
#define STORE4(v, p, i) vstore_half4(v, i, p)
#define LOAD(p, i) vload_half(i, p)
#define STORE(v, p, i) vstore_half(v, i, p)
#else
#define STORED float
#define LOAD4(p, i) vload4(i, p)
#define STORE4(v, p, i) vstore4(v, i, p)
#define LOAD(p, i) ((p)[i])
#define STORE(v, p, i) ((p)[i] = (v))
#endif

#ifdef OPENCL_DEVICE
#define F4(a, b, c, d) ((float4)(a, b, c, d))
#define DEVICE_FUNCTION
#endif
#define ALL4(a) F4(a, a, a, a)

/* of two numbers of which one is NaN, NaN, as NumPy has it; fmax and fmin would give the other one */
DEVICE_FUNCTION float larger(float a, float b) { return (a > b || a != a) ? a : b; }
DEVICE_FUNCTION float smaller(float a, float b) { return (a < b || a != a) ? a : b; }

DEVICE_FUNCTION float4 larger4(float4 a, float4 b) {
    return F4(larger(a.x, b.x), larger(a.y, b.y), larger(a.z, b.z), larger(a.w, b.w));
}

DEVICE_FUNCTION float4 smaller4(float4 a, float4 b) {
    return F4(smaller(a.x, b.x), smaller(a.y, b.y), smaller(a.z, b.z), smaller(a.w, b.w));
}

/* acc + x times a 4 x 4 matrix, whose rows are for one input channel each */
#define MULTIPLY(acc, v, w0, w1, w2, w3) \
    (acc) += (w0) * (v).x; (acc) += (w1) * (v).y; (acc) += (w2) * (v).z; (acc) += (w3) * (v).w

#define sigmoid1(x) (1.0f / (1.0f + exp(-(x))))

/* ACTIVATE1(x, p): the activation of one number; p is the operand of its channel, if it takes one */
#ifndef ACTIVATE1
#define ACTIVATE1(x, p) (x)
#endif
DEVICE_FUNCTION float4 activate4(float4 v, float4 p) {
    return F4(ACTIVATE1(v.x, p.x), ACTIVATE1(v.y, p.y), ACTIVATE1(v.z, p.z), ACTIVATE1(v.w, p.w));
}
