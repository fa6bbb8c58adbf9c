"""Turns the kernels' OpenCL C into CUDA C++: macros and a few functions, without any header."""

PRELUDE = r"""
#define __kernel extern "C" __global__
#define __global
#define __local __shared__ __align__(16)
#define DEVICE_FUNCTION __device__ __forceinline__
#define CLK_LOCAL_MEM_FENCE 0
#define barrier(fence) __syncthreads()
#define half unsigned short
#define F4(a, b, c, d) make_float4(a, b, c, d)
#undef INFINITY
#undef NAN
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)

DEVICE_FUNCTION int get_local_id(int d) { return d == 0 ? threadIdx.x : d == 1 ? threadIdx.y : threadIdx.z; }
DEVICE_FUNCTION int get_group_id(int d) { return d == 0 ? blockIdx.x : d == 1 ? blockIdx.y : blockIdx.z; }
DEVICE_FUNCTION int get_local_size(int d) { return d == 0 ? blockDim.x : d == 1 ? blockDim.y : blockDim.z; }
DEVICE_FUNCTION int get_global_id(int d) { return get_group_id(d) * get_local_size(d) + get_local_id(d); }

DEVICE_FUNCTION float4 operator+(float4 a, float4 b) { return F4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
DEVICE_FUNCTION float4 operator-(float4 a, float4 b) { return F4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w); }
DEVICE_FUNCTION float4 operator*(float4 a, float4 b) { return F4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }
DEVICE_FUNCTION float4 operator*(float4 a, float b) { return F4(a.x * b, a.y * b, a.z * b, a.w * b); }
DEVICE_FUNCTION void operator+=(float4 &a, float4 b) { a = a + b; }

DEVICE_FUNCTION float4 vload4(int i, const float *p) { return ((const float4 *)p)[i]; }
DEVICE_FUNCTION void vstore4(float4 v, int i, float *p) { ((float4 *)p)[i] = v; }

DEVICE_FUNCTION float vload_half(int i, const half *p) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(p[i]));
    return f;
}
DEVICE_FUNCTION void vstore_half(float v, int i, half *p) {
    half h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
    p[i] = h;
}
DEVICE_FUNCTION float4 vload_half4(int i, const half *p) {
    return F4(vload_half(4 * i, p), vload_half(4 * i + 1, p), vload_half(4 * i + 2, p), vload_half(4 * i + 3, p));
}
DEVICE_FUNCTION void vstore_half4(float4 v, int i, half *p) {
    vstore_half(v.x, 4 * i, p);
    vstore_half(v.y, 4 * i + 1, p);
    vstore_half(v.z, 4 * i + 2, p);
    vstore_half(v.w, 4 * i + 3, p);
}
"""
