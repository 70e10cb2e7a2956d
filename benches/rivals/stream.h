// Vectors of the machine that a file is compiled for, by GCC's vector extensions: one source for every instruction set. Only what
// C has no words for is said by intrinsics: stores that bypass the caches, and square roots.
#pragma once
#include <math.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define RESTRICT __restrict__

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define LANES (BYTES / 4)

typedef float vf __attribute__((vector_size(BYTES), may_alias));
typedef float vf_anywhere __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef double vd __attribute__((vector_size(BYTES), may_alias));
typedef double vd_anywhere __attribute__((vector_size(BYTES), aligned(8), may_alias));
typedef int32_t vi __attribute__((vector_size(BYTES), may_alias));
typedef int32_t vi_anywhere __attribute__((vector_size(BYTES), aligned(4), may_alias));

static inline vf load_v(const float *p) { return (vf) * (const vf_anywhere *)p; }
static inline float load_s(const float *p) { return *p; }
static inline void store_v(float *p, vf v) { *(vf_anywhere *)p = v; }
static inline vf splat(float x) { return x - (vf){0}; }

// To an aligned place, past the caches where the machine can.
static inline void stream_v(float *p, vf v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX__)
  _mm256_stream_ps(p, (__m256)v);
#elif defined(__x86_64__)
  _mm_stream_ps(p, (__m128)v);
#else
  *(vf *)p = v;
#endif
}

// After the last such store.
static inline void streamed(void) {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

static inline float sqrt_s(float x) { return sqrtf(x); }
static inline vf sqrt_v(vf x) {
#if defined(__AVX512F__)
  return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__)
  return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
  return (vf)_mm_sqrt_ps((__m128)x);
#else
  return (vf)vsqrtq_f32((float32x4_t)x);
#endif
}

static inline vf choose(vi where, vf a, vf b) { return (vf)(((vi)a & where) | ((vi)b & ~where)); }
static inline vf min_v(vf a, vf b) { return choose(a < b, a, b); }
static inline vf max_v(vf a, vf b) { return choose(a > b, a, b); }

static inline float sum_v(vf v) {
  float sum = 0;
  for (int half = LANES / 2; half >= 4; half /= 2) {
    vi swapped;
    for (int l = 0; l < LANES; l++) swapped[l] = (l + half) % LANES;
    v += __builtin_shuffle(v, swapped);
  }
  for (int l = 0; l < 4; l++) sum += v[l];
  return sum;
}

// The last vector of n >= LANES elements with zeros in place of those before the last `rest`.
static inline vf last_v(const float *p, int64_t n, int64_t rest) {
  static const int32_t mask[2 * LANES] = {[LANES ... 2 * LANES - 1] = -1};
  return (vf)((vi)load_v(p + n - LANES) & (vi) * (const vi_anywhere *)(mask + rest));
}

static inline int64_t to_aligned(const float *p) { return (int64_t)((BYTES - ((uintptr_t)p & (BYTES - 1))) & (BYTES - 1)) / 4; }

// A row of n results from q on: VALUE(kind, type) sets r to that at j in terms of the functions of a kind (`v`, `s`). Vectors all
// the way: the first and the last one overlap those between, which are aligned.
#define ROW(q, n, VALUE)                                                                                   \
  do {                                                                                                     \
    int64_t j = 0;                                                                                         \
    if ((n) < LANES) {                                                                                     \
      for (; j < (n); j++) { float r; VALUE(s, float); (q)[j] = r; }                                       \
      break;                                                                                               \
    }                                                                                                      \
    if (to_aligned(q)) { vf r; VALUE(v, vf); store_v(q, r); j = to_aligned(q); }                           \
    for (; j + LANES <= (n); j += LANES) { vf r; VALUE(v, vf); stream_v((q) + j, r); }                     \
    if (j < (n)) { j = (n) - LANES; vf r; VALUE(v, vf); store_v((q) + j, r); }                             \
  } while (0)
