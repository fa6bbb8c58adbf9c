/* cuDNN's functions for convolutions, on the memory of the processor: what tests/runtime_arm/gpu/test_cudnn.py builds. */
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, BAD_PARAM = 3, NOT_SUPPORTED = 9 };
typedef struct { int kind, set, dim[4]; } Shape;
typedef struct { int kind, set, pad[2], stride[2], dilation[2], group, math; } Convolution;
typedef struct {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
} Performance;

static int alive, runs;
int fake_alive(void) { return alive; }
int fake_runs(void) { return runs; }

size_t cudnnGetVersion(void) { return 8904; }
const char *cudnnGetErrorString(int code) {
    return code == BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_NOT_SUPPORTED";
}
int cudnnCreate(void **handle) { *handle = &runs; return SUCCESS; }

static int create(void **made, size_t nbytes, int kind) {
    *made = calloc(1, nbytes);
    *(int *)*made = kind;
    alive++;
    return SUCCESS;
}
static int destroy(void *made) { free(made); alive--; return SUCCESS; }
int cudnnCreateTensorDescriptor(void **made) { return create(made, sizeof(Shape), 1); }
int cudnnCreateFilterDescriptor(void **made) { return create(made, sizeof(Shape), 2); }
int cudnnCreateConvolutionDescriptor(void **made) { return create(made, sizeof(Convolution), 3); }
int cudnnDestroyTensorDescriptor(void *made) { return destroy(made); }
int cudnnDestroyFilterDescriptor(void *made) { return destroy(made); }
int cudnnDestroyConvolutionDescriptor(void *made) { return destroy(made); }

static int shape(Shape *s, int kind, int format, int type, int a, int b, int c, int d) {
    if (s->kind != kind || format != 0 || type != 0 || a < 1 || b < 1 || c < 1 || d < 1) return BAD_PARAM;
    s->set = 1;
    s->dim[0] = a, s->dim[1] = b, s->dim[2] = c, s->dim[3] = d;
    return SUCCESS;
}
int cudnnSetTensor4dDescriptor(Shape *s, int format, int type, int n, int c, int h, int w) {
    return shape(s, 1, format, type, n, c, h, w);
}
int cudnnSetFilter4dDescriptor(Shape *s, int type, int format, int k, int c, int h, int w) {
    return shape(s, 2, format, type, k, c, h, w);
}
int cudnnSetConvolution2dDescriptor(Convolution *o, int py, int px, int sy, int sx, int dy, int dx, int mode, int type) {
    if (o->kind != 3 || py < 0 || px < 0 || sy < 1 || sx < 1 || dy < 1 || dx < 1 || mode != 1 || type != 0)
        return BAD_PARAM;
    o->pad[0] = py, o->pad[1] = px, o->stride[0] = sy, o->stride[1] = sx, o->dilation[0] = dy, o->dilation[1] = dx;
    o->set = o->group = 1;
    return SUCCESS;
}
int cudnnSetConvolutionGroupCount(Convolution *o, int group) {
    o->group = group;
    return group < 1 ? BAD_PARAM : SUCCESS;
}
int cudnnSetConvolutionMathType(Convolution *o, int math) { o->math = math; return SUCCESS; }

static int size(const Convolution *o, const Shape *x, const Shape *w, int axis) {
    int reach = o->dilation[axis] * (w->dim[2 + axis] - 1) + 1;
    return (x->dim[2 + axis] + 2 * o->pad[axis] - reach) / o->stride[axis] + 1;
}
int cudnnGetConvolution2dForwardOutputDim(Convolution *o, Shape *x, Shape *w, int *n, int *c, int *h, int *width) {
    if (!o->set || !x->set || !w->set || x->dim[1] != w->dim[1] * o->group) return BAD_PARAM;
    *n = x->dim[0], *c = w->dim[0], *h = size(o, x, w, 0), *width = size(o, x, w, 1);
    return SUCCESS;
}
/* The first does not work here, the second needs too much, the third is taken. */
int cudnnGetConvolutionForwardAlgorithm_v7(void *handle, Shape *x, Shape *w, Convolution *o, Shape *y, int most, int *found,
                                           Performance *all) {
    const Performance known[3] = {{6, NOT_SUPPORTED, 0.1f, 0}, {5, SUCCESS, 0.2f, (size_t)1 << 40}, {1, SUCCESS, 0.3f, 64}};
    if (o->math != 3) return BAD_PARAM;
    *found = most < 3 ? most : 3;
    memcpy(all, known, *found * sizeof *all);
    return SUCCESS;
}
int cudnnConvolutionForward(void *handle, const float *alpha, Shape *xs, const float *x, Shape *ws, const float *w,
                            Convolution *o, int algorithm, void *workspace, size_t nbytes, const float *beta, Shape *ys,
                            float *y) {
    if (handle != &runs || algorithm != 1 || nbytes != 64 || *alpha != 1 || *beta != 0) return BAD_PARAM;
    memset(workspace, 0xA5, nbytes);
    const int *X = xs->dim, *W = ws->dim, *Y = ys->dim, filters = W[0] / o->group;
    for (int n = 0; n < Y[0]; n++)
        for (int m = 0; m < Y[1]; m++)
            for (int oy = 0; oy < Y[2]; oy++)
                for (int ox = 0; ox < Y[3]; ox++) {
                    double sum = 0;
                    for (int c = 0; c < W[1]; c++)
                        for (int ky = 0; ky < W[2]; ky++)
                            for (int kx = 0; kx < W[3]; kx++) {
                                int iy = oy * o->stride[0] - o->pad[0] + ky * o->dilation[0];
                                int ix = ox * o->stride[1] - o->pad[1] + kx * o->dilation[1];
                                if (iy < 0 || iy >= X[2] || ix < 0 || ix >= X[3]) continue;
                                sum += (double)x[((n * X[1] + m / filters * W[1] + c) * X[2] + iy) * X[3] + ix] *
                                       w[((m * W[1] + c) * W[2] + ky) * W[3] + kx];
                            }
                    y[((n * Y[1] + m) * Y[2] + oy) * Y[3] + ox] = (float)sum;
                }
    runs++;
    return SUCCESS;
}
