// Hand-written AVX-512 rivals of the memory-bound examples, and the ceilings of the machine.
// Streaming stores where the output is not read again; rows whose start is not aligned are peeled.
// Built by benches/setup.sh: gcc -O3 -march=native -fopenmp -shared -fPIC.
#include <immintrin.h>
#include <omp.h>
#include <stdint.h>
#include <stddef.h>

#define RESTRICT __restrict__

// ---- ceilings ----------------------------------------------------------------------------------

// 16 independent chains of zmm FMAs; inline assembly, because compilers drop FMAs whose results are unused.
// Returns the number of floating-point operations done by one thread.
double peak_f32(int64_t iterations) {
  for (int64_t i = 0; i < iterations; i++) {
    __asm__ volatile(
        "vfmadd231ps %%zmm16,%%zmm17,%%zmm0\n vfmadd231ps %%zmm16,%%zmm17,%%zmm1\n"
        "vfmadd231ps %%zmm16,%%zmm17,%%zmm2\n vfmadd231ps %%zmm16,%%zmm17,%%zmm3\n"
        "vfmadd231ps %%zmm16,%%zmm17,%%zmm4\n vfmadd231ps %%zmm16,%%zmm17,%%zmm5\n"
        "vfmadd231ps %%zmm16,%%zmm17,%%zmm6\n vfmadd231ps %%zmm16,%%zmm17,%%zmm7\n"
        "vfmadd231ps %%zmm16,%%zmm17,%%zmm8\n vfmadd231ps %%zmm16,%%zmm17,%%zmm9\n"
        "vfmadd231ps %%zmm16,%%zmm17,%%zmm10\n vfmadd231ps %%zmm16,%%zmm17,%%zmm11\n"
        "vfmadd231ps %%zmm16,%%zmm17,%%zmm12\n vfmadd231ps %%zmm16,%%zmm17,%%zmm13\n"
        "vfmadd231ps %%zmm16,%%zmm17,%%zmm14\n vfmadd231ps %%zmm16,%%zmm17,%%zmm15\n"
        :
        :
        : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
          "xmm13", "xmm14", "xmm15");
  }
  return (double)iterations * 16 * 16 * 2;
}

void copy_f32(const float *RESTRICT a, float *RESTRICT b, int64_t n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t block = 0; block < n / 256; block++)
    for (int64_t i = block * 256; i < block * 256 + 256; i += 16) _mm512_stream_ps(b + i, _mm512_loadu_ps(a + i));
  for (int64_t i = n / 256 * 256; i < n; i++) b[i] = a[i];
  _mm_sfence();
}

// Sums n elements, each thread in so many places side by side: what of that is fastest tells how fast memory is read.
float read_f32(const float *RESTRICT a, int64_t n, int threads, int streams) {
  float sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  {
    int64_t each = n / threads / streams / 64 * 64;
    const float *mine = a + each * streams * omp_get_thread_num();
    __m512 s[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int64_t i = 0; i < each; i += 64)
      for (int k = 0; k < streams; k++)
        for (int u = 0; u < 4; u++) s[u] = _mm512_add_ps(s[u], _mm512_loadu_ps(mine + k * each + i + 16 * u));
    sum += _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
  }
  return sum;
}

void triad_f64(const double *RESTRICT a, const double *RESTRICT b, double *RESTRICT c, int64_t n, int threads) {
  const __m512d s = _mm512_set1_pd(3.0);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t block = 0; block < n / 256; block++)
    for (int64_t i = block * 256; i < block * 256 + 256; i += 8)
      _mm512_stream_pd(c + i, _mm512_fmadd_pd(s, _mm512_loadu_pd(b + i), _mm512_loadu_pd(a + i)));
  _mm_sfence();
}

// ---- calls in a row -----------------------------------------------------------------------------
// The libraries' own functions, called `times` times, so that no rival pays for the caller's language.

typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef void (*dgemm_fn)(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
typedef int (*dnnl_fn)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float,
                       float *, int64_t);

void repeat_sgemm(sgemm_fn f, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c, int64_t times) {
  for (int64_t t = 0; t < times; t++) f(101, 111, 111, m, n, k, 1, a, k, b, n, 0, c, n);
}
void repeat_dgemm(dgemm_fn f, int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c, int64_t times) {
  for (int64_t t = 0; t < times; t++) f(101, 111, 111, m, n, k, 1, a, k, b, n, 0, c, n);
}
void repeat_dnnl(dnnl_fn f, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c, int64_t times) {
  for (int64_t t = 0; t < times; t++) f('N', 'N', m, n, k, 1, a, k, b, n, 0, c, n);
}

// ---- rivals ------------------------------------------------------------------------------------

static float dot_part(const float *RESTRICT a, const float *RESTRICT b, int64_t n) {
  __m512 s[8];
  for (int u = 0; u < 8; u++) s[u] = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + 128 <= n; i += 128)
    for (int u = 0; u < 8; u++)
      s[u] = _mm512_fmadd_ps(_mm512_loadu_ps(a + i + 16 * u), _mm512_loadu_ps(b + i + 16 * u), s[u]);
  for (; i < n; i += 16) {
    __mmask16 m = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
    s[0] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, a + i), _mm512_maskz_loadu_ps(m, b + i), s[0]);
  }
  for (int u = 4; u; u /= 2)
    for (int v = 0; v < u; v++) s[v] = _mm512_add_ps(s[v], s[v + u]);
  return _mm512_reduce_add_ps(s[0]);
}

void dot_f32(const float *a, const float *b, float *c, int64_t n, int threads) {
  float sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  {
    int t = omp_get_thread_num(), k = omp_get_num_threads();
    int64_t lo = n / 16 * t / k * 16, hi = t == k - 1 ? n : n / 16 * (t + 1) / k * 16;
    sum += dot_part(a + lo, b + lo, hi - lo);
  }
  *c = sum;
}

// y = A x, four rows at a time.
void matvec_f32(const float *RESTRICT a, const float *RESTRICT x, float *RESTRICT y, int64_t m, int64_t k, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i0 = 0; i0 < m / 4; i0++) {
    const float *r = a + i0 * 4 * k;
    __m512 s[8];
    for (int u = 0; u < 8; u++) s[u] = _mm512_setzero_ps();
    int64_t j = 0;
    for (; j + 32 <= k; j += 32) {
      __m512 x0 = _mm512_loadu_ps(x + j), x1 = _mm512_loadu_ps(x + j + 16);
      for (int u = 0; u < 4; u++) {
        s[2 * u] = _mm512_fmadd_ps(_mm512_loadu_ps(r + u * k + j), x0, s[2 * u]);
        s[2 * u + 1] = _mm512_fmadd_ps(_mm512_loadu_ps(r + u * k + j + 16), x1, s[2 * u + 1]);
      }
    }
    for (int u = 0; u < 4; u++) {
      float t = _mm512_reduce_add_ps(_mm512_add_ps(s[2 * u], s[2 * u + 1]));
      for (int64_t q = j; q < k; q++) t += r[u * k + q] * x[q];
      y[i0 * 4 + u] = t;
    }
  }
  for (int64_t i = m / 4 * 4; i < m; i++) y[i] = dot_part(a + i * k, x, k);
}

static inline __m512 star5(const float *RESTRICT p, int64_t w, __m512 c) {
  __m512 v = _mm512_add_ps(_mm512_loadu_ps(p), _mm512_loadu_ps(p - w));
  v = _mm512_add_ps(v, _mm512_loadu_ps(p + w));
  v = _mm512_add_ps(v, _mm512_add_ps(_mm512_loadu_ps(p - 1), _mm512_loadu_ps(p + 1)));
  return _mm512_mul_ps(v, c);
}

static inline int64_t to_aligned(const float *p) { return (int64_t)((64 - ((uintptr_t)p & 63)) & 63) / 4; }

// b = c (a + four neighbours): a is (n + 2) x (n + 2), b is n x n.
void jacobi2d_f32(const float *RESTRICT a, float *RESTRICT b, float scale, int64_t n, int threads) {
  const __m512 c = _mm512_set1_ps(scale);
  const int64_t w = n + 2;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float *p = a + (i + 1) * w + 1;
    float *q = b + i * n;
    int64_t j = 0, first = to_aligned(q);
    for (; j < first && j < n; j++) q[j] = (p[j] + p[j - w] + p[j + w] + (p[j - 1] + p[j + 1])) * scale;
    for (; j + 16 <= n; j += 16) _mm512_stream_ps(q + j, star5(p + j, w, c));
    for (; j < n; j++) q[j] = (p[j] + p[j - w] + p[j + w] + (p[j - 1] + p[j + 1])) * scale;
  }
  _mm_sfence();
}

// b = c (a + six neighbours): a is (n + 2)^3, b is n^3; j is blocked so that three planes stay in the second-level cache.
void jacobi3d_f32(const float *RESTRICT a, float *RESTRICT b, float scale, int64_t n, int threads) {
  const __m512 c = _mm512_set1_ps(scale);
  const int64_t w = n + 2, s = w * w, tile = 64;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t jo = 0; jo < n; jo += tile)
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = jo; j < (jo + tile < n ? jo + tile : n); j++) {
        const float *p = a + (i + 1) * s + (j + 1) * w + 1;
        float *q = b + (i * n + j) * n;
        int64_t k = 0, first = to_aligned(q);
        for (; k < first && k < n; k++)
          q[k] = (p[k] + p[k - s] + p[k + s] + p[k - w] + p[k + w] + p[k - 1] + p[k + 1]) * scale;
        for (; k + 16 <= n; k += 16) {
          __m512 v = _mm512_add_ps(_mm512_loadu_ps(p + k), _mm512_loadu_ps(p + k - s));
          v = _mm512_add_ps(v, _mm512_loadu_ps(p + k + s));
          v = _mm512_add_ps(v, _mm512_loadu_ps(p + k - w));
          v = _mm512_add_ps(v, _mm512_loadu_ps(p + k + w));
          v = _mm512_add_ps(v, _mm512_loadu_ps(p + k - 1));
          v = _mm512_add_ps(v, _mm512_loadu_ps(p + k + 1));
          _mm512_stream_ps(q + k, _mm512_mul_ps(v, c));
        }
        for (; k < n; k++) q[k] = (p[k] + p[k - s] + p[k + s] + p[k - w] + p[k + w] + p[k - 1] + p[k + 1]) * scale;
      }
  _mm_sfence();
}

// Two-plane heat equation without tiling in time, vectorized by the compiler: the loop that time tiling is compared with.
void heat2d_f32(float *RESTRICT u, const float *RESTRICT a, int64_t n, int64_t steps, int threads) {
  for (int64_t t = 0; t < steps; t++) {
    const float *RESTRICT p = u + (t % 2) * n * n;
    float *RESTRICT q = u + ((t + 1) % 2) * n * n;
    const float c = a[t];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t y = 1; y < n - 1; y++)
#pragma omp simd
      for (int64_t x = 1; x < n - 1; x++)
        q[y * n + x] = p[y * n + x] + c * (p[(y - 1) * n + x] + p[(y + 1) * n + x] + p[y * n + x - 1] + p[y * n + x + 1] - 4 * p[y * n + x]);
  }
}
