// Rivals of the homomorphisms' benchmark: calls of libraries in a row, so that nobody pays for the caller's language,
// primitives of oneDNN, and stencils written by hand with the machine's vectors and streaming stores. Built into
// rivals.so by benches/setup.sh.
#include "stream.h"

#include <dnnl.h>
#include <stdlib.h>

// ---- OpenBLAS and dnnl_sgemm ---------------------------------------------------------------------

typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef void (*sgemv_fn)(int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef float (*sdot_fn)(int, const float *, int, const float *, int);

// `batch` row-major products C = A B, or C^T = (A^T B^T)^T where all three are stored transposed. On one thread the library
// has its own; on several, they share the batch, and the library is to have one.
void mdh_sgemm(sgemm_fn f, int64_t transposed, int64_t batch, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
               float *c, int threads, int64_t times) {
  for (int64_t t = 0; t < times; t++)
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < batch; i++) {
      const float *x = a + i * m * k, *y = b + i * k * n;
      float *z = c + i * m * n;
      // Column-major is row-major of the transposed.
      if (transposed) f(102, 111, 111, m, n, k, 1, x, m, y, k, 0, z, m);
      else f(101, 111, 111, m, n, k, 1, x, k, y, n, 0, z, n);
    }
}

void mdh_dnnl_sgemm(int64_t transposed, int64_t batch, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c,
                    int threads, int64_t times) {
  for (int64_t t = 0; t < times; t++)
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < batch; i++) {
      const float *x = a + i * m * k, *y = b + i * k * n;
      float *z = c + i * m * n;
      if (transposed) dnnl_sgemm('N', 'N', n, m, k, 1, y, k, x, m, 0, z, m);
      else dnnl_sgemm('N', 'N', m, n, k, 1, x, k, y, n, 0, z, n);
    }
}

void mdh_sgemv(sgemv_fn f, int64_t m, int64_t k, const float *a, const float *x, float *y, int64_t times) {
  for (int64_t t = 0; t < times; t++) f(101, 111, m, k, 1, a, k, x, 1, 0, y, 1);
}

void mdh_sdot(sdot_fn f, int64_t n, const float *a, const float *b, float *c, int64_t times) {
  for (int64_t t = 0; t < times; t++) *c = f(n, a, 1, b, 1);
}

// ---- oneDNN's primitives -------------------------------------------------------------------------

struct primitive {
  dnnl_stream_t stream;
  dnnl_primitive_t primitive;
  int count;
  dnnl_exec_arg_t args[5];
};

static int add(struct primitive *x, int what, const dnnl_memory_desc_t *desc, dnnl_engine_t engine, void *data) {
  dnnl_memory_t memory;
  if (dnnl_memory_create(&memory, desc, engine, data)) return 1;
  x->args[x->count++] = (dnnl_exec_arg_t){what, memory};
  return 0;
}

// Runs what one of the functions below opened; all are null on failure.
void mdh_primitive_run(void *handle, int64_t times) {
  struct primitive *x = handle;
  for (int64_t t = 0; t < times; t++) {
    dnnl_primitive_execute(x->primitive, x->stream, x->count, x->args);
    dnnl_stream_wait(x->stream);
  }
}

// Of the rows of an m x n matrix.
void *mdh_softmax_open(int64_t m, int64_t n, float *in, float *out) {
  dnnl_dims_t dims = {m, n};
  dnnl_engine_t engine;
  dnnl_memory_desc_t data;
  dnnl_softmax_desc_t desc;
  dnnl_primitive_desc_t pd;
  struct primitive *x = calloc(1, sizeof *x);
  if (!x || dnnl_engine_create(&engine, dnnl_cpu, 0) || dnnl_stream_create(&x->stream, engine, dnnl_stream_default_flags) ||
      dnnl_memory_desc_init_by_tag(&data, 2, dims, dnnl_f32, dnnl_ab) ||
      dnnl_softmax_forward_desc_init(&desc, dnnl_forward_inference, &data, 1) ||
      dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL) || dnnl_primitive_create(&x->primitive, pd) ||
      add(x, DNNL_ARG_SRC, &data, engine, in) || add(x, DNNL_ARG_DST, &data, engine, out))
    return NULL;
  return x;
}

void *mdh_layer_norm_open(int64_t m, int64_t n, float *in, float *scale, float *shift, float *out) {
  dnnl_dims_t dims = {m, n}, columns = {n};
  dnnl_engine_t engine;
  dnnl_memory_desc_t data, one;
  dnnl_layer_normalization_desc_t desc;
  dnnl_primitive_desc_t pd;
  struct primitive *x = calloc(1, sizeof *x);
  if (!x || dnnl_engine_create(&engine, dnnl_cpu, 0) || dnnl_stream_create(&x->stream, engine, dnnl_stream_default_flags) ||
      dnnl_memory_desc_init_by_tag(&data, 2, dims, dnnl_f32, dnnl_ab) ||
      dnnl_memory_desc_init_by_tag(&one, 1, columns, dnnl_f32, dnnl_a) ||
      dnnl_layer_normalization_forward_desc_init(&desc, dnnl_forward_inference, &data, NULL, 1e-5f, dnnl_use_scale | dnnl_use_shift) ||
      dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL) || dnnl_primitive_create(&x->primitive, pd) ||
      add(x, DNNL_ARG_SRC, &data, engine, in) || add(x, DNNL_ARG_SCALE, &one, engine, scale) ||
      add(x, DNNL_ARG_SHIFT, &one, engine, shift) || add(x, DNNL_ARG_DST, &data, engine, out))
    return NULL;
  return x;
}

// Images NHWC, filters KRSC; the filter is brought into the library's own layout once, outside of all measurements.
void *mdh_conv_open(int64_t n, int64_t h, int64_t w, int64_t c, int64_t k, int64_t r, int64_t s, int64_t stride, float *image,
                    float *filter, float *out) {
  const int64_t p = (h - r) / stride + 1, q = (w - s) / stride + 1;
  dnnl_dims_t in = {n, c, h, w}, wd = {k, c, r, s}, od = {n, k, p, q}, strides = {stride, stride}, pad = {0, 0};
  dnnl_engine_t engine;
  dnnl_memory_desc_t src, wei, user, dst;
  dnnl_convolution_desc_t desc;
  dnnl_primitive_desc_t pd, rd;
  dnnl_primitive_t reorder;
  dnnl_memory_t ms, mu, mw, md;
  struct primitive *x = calloc(1, sizeof *x);
  if (!x || dnnl_engine_create(&engine, dnnl_cpu, 0) || dnnl_stream_create(&x->stream, engine, dnnl_stream_default_flags) ||
      dnnl_memory_desc_init_by_tag(&src, 4, in, dnnl_f32, dnnl_nhwc) ||
      dnnl_memory_desc_init_by_tag(&user, 4, wd, dnnl_f32, dnnl_ohwi) ||
      dnnl_memory_desc_init_by_tag(&wei, 4, wd, dnnl_f32, dnnl_format_tag_any) ||
      dnnl_memory_desc_init_by_tag(&dst, 4, od, dnnl_f32, dnnl_nhwc) ||
      dnnl_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_auto, &src, &wei, NULL, &dst, strides,
                                         pad, pad) ||
      dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL) || dnnl_primitive_create(&x->primitive, pd))
    return NULL;
  const dnnl_memory_desc_t *own = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
  if (dnnl_memory_create(&ms, &src, engine, image) || dnnl_memory_create(&mu, &user, engine, filter) ||
      dnnl_memory_create(&mw, own, engine, DNNL_MEMORY_ALLOCATE) || dnnl_memory_create(&md, &dst, engine, out) ||
      dnnl_reorder_primitive_desc_create(&rd, &user, engine, own, engine, NULL) || dnnl_primitive_create(&reorder, rd))
    return NULL;
  dnnl_exec_arg_t move[] = {{DNNL_ARG_FROM, mu}, {DNNL_ARG_TO, mw}};
  if (dnnl_primitive_execute(reorder, x->stream, 2, move) || dnnl_stream_wait(x->stream)) return NULL;
  x->count = 3;
  x->args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, ms};
  x->args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, mw};
  x->args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, md};
  return x;
}

// ---- by hand -------------------------------------------------------------------------------------

#define STAR(k, t)                                                                                              \
  r = .16f * (load_##k(p + j - plane) + load_##k(p + j - row) + load_##k(p + j - 1) + load_##k(p + j + 1) +     \
              load_##k(p + j + row) + load_##k(p + j + plane)) + .04f * load_##k(p + j)

// Inputs have one more cell on every side.
void mdh_jacobi3d(const float *RESTRICT a, float *RESTRICT b, int64_t n, int threads) {
  const int64_t row = n + 2, plane = row * row, tile = 32;
#pragma omp parallel for num_threads(threads) schedule(static) collapse(2)
  for (int64_t block = 0; block < (n + tile - 1) / tile; block++)
    for (int64_t i = 0; i < n; i++)
      for (int64_t y = block * tile; y < n && y < (block + 1) * tile; y++) {
        const float *p = a + (i + 1) * plane + (y + 1) * row + 1;
        ROW(b + (i * n + y) * n, n, STAR);
      }
  streamed();
}

// A filter of 5 x 5; rows of the result four at a time, so that a loaded vector serves several of them.
void mdh_conv2d_5x5(const float *RESTRICT a, const float *RESTRICT f, float *RESTRICT b, int64_t h, int64_t w, int threads) {
  const int64_t p = h - 4, q = w - 4;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i0 = 0; i0 < (p + 3) / 4; i0++) {
    const int64_t i = i0 * 4 + 4 <= p ? i0 * 4 : (p >= 4 ? p - 4 : 0), rows = p < 4 ? p : 4;
    const int64_t vectors = rows == 4 && q >= LANES ? q : 0;
    for (int64_t at = 0; at < vectors; at += LANES) {
      // The last vector overlaps the one before.
      const int64_t j = at + LANES <= q ? at : q - LANES;
      vf s[4] = {};
      for (int y = 0; y < 8; y++)
        for (int x = 0; x < 5; x++) {
          vf v = load_v(a + (i + y) * w + j + x);
          for (int u = 0; u < 4; u++)
            if (y - u >= 0 && y - u < 5) s[u] += f[(y - u) * 5 + x] * v;
        }
      for (int u = 0; u < 4; u++) store_v(b + (i + u) * q + j, s[u]);
    }
    for (int64_t j = vectors; j < q; j++)
      for (int64_t u = 0; u < rows; u++) {
        float s = 0;
        for (int y = 0; y < 5; y++)
          for (int x = 0; x < 5; x++) s += f[y * 5 + x] * a[(i + u + y) * w + j + x];
        b[(i + u) * q + j] = s;
      }
  }
}
