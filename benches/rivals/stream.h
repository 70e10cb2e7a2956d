// Rows of results written by streaming stores, the widest vectors, for the hand-written rivals.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#define RESTRICT __restrict__
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));

static inline v16 load_v(const float *p) { return *(const v16 *)p; }
static inline float load_s(const float *p) { return *p; }

static inline int64_t to_aligned(const float *p) { return (int64_t)((64 - ((uintptr_t)p & 63)) & 63) / 4; }

// A row of n results from q on: BODY(j, kind) writes the value at j in terms of the functions of a kind (`v`, `s`).
#define ROW(q, n, VALUE)                                                                   \
  do {                                                                                     \
    int64_t j = 0, first = to_aligned(q);                                                  \
    for (; j < first && j < (n); j++) { float r; VALUE(s, float); (q)[j] = r; }            \
    for (; j + 16 <= (n); j += 16) { v16 r; VALUE(v, v16); _mm512_stream_ps((q) + j, (__m512)r); } \
    for (; j < (n); j++) { float r; VALUE(s, float); (q)[j] = r; }                         \
  } while (0)
