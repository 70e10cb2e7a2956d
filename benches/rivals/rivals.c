// Hand-written rivals of the memory-bound examples, and the ceilings of the machine, by vectors of the machine that they are
// compiled for. Streaming stores where the output is not read again. Built by benches/setup.sh.
#include "stream.h"

#include <omp.h>
#include <stddef.h>

// ---- ceilings ----------------------------------------------------------------------------------

#if defined(__AVX512F__)
#define KEEP(x) __asm__ volatile("" : "+v"(x))
#elif defined(__x86_64__)
#define KEEP(x) __asm__ volatile("" : "+x"(x))
#else
#define KEEP(x) __asm__ volatile("" : "+w"(x))
#endif

// What made this library, and for which instructions.
const char *compiler(void) {
#if defined(__AVX512F__)
  return "gcc " __VERSION__ " -O3, AVX-512";
#else
  return "gcc " __VERSION__ " -O3, AVX2";
#endif
}

// Independent chains of multiplications and additions, in one instruction where the machine has it; as many as 16 registers
// hold. They are kept, because compilers drop what is not used. Returns the number of floating-point operations.
double peak_f32(int64_t iterations) {
  vf x = splat(1), y = splat(0);
  vf a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  for (int64_t t = 0; t < iterations; t++) {
    KEEP(x); KEEP(y);
    a += x * y, b += x * y, c += x * y, d += x * y, e += x * y, f += x * y;
    g += x * y, h += x * y, i += x * y, j += x * y, k += x * y, l += x * y;
    KEEP(a); KEEP(b); KEEP(c); KEEP(d); KEEP(e); KEEP(f);
    KEEP(g); KEEP(h); KEEP(i); KEEP(j); KEEP(k); KEEP(l);
  }
  return (double)iterations * LANES * 12 * 2;
}

void copy_f32(const float *RESTRICT a, float *RESTRICT b, int64_t n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t block = 0; block < n / 256; block++)
    for (int64_t i = block * 256; i < block * 256 + 256; i += LANES) stream_v(b + i, load_v(a + i));
  for (int64_t i = n / 256 * 256; i < n; i++) b[i] = a[i];
  streamed();
}

// Sums n elements, each thread in so many places side by side: what of that is fastest tells how fast memory is read.
float read_f32(const float *RESTRICT a, int64_t n, int threads, int streams) {
  float sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  {
    int64_t each = n / threads / streams / 64 * 64;
    const float *mine = a + each * streams * omp_get_thread_num();
    vf s[4] = {};
    for (int64_t i = 0; i < each; i += 4 * LANES)
      for (int k = 0; k < streams; k++)
        for (int u = 0; u < 4; u++) s[u] += load_v(mine + k * each + i + LANES * u);
    sum += sum_v((s[0] + s[1]) + (s[2] + s[3]));
  }
  return sum;
}

void triad_f64(const double *RESTRICT a, const double *RESTRICT b, double *RESTRICT c, int64_t n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t block = 0; block < n / 256; block++)
    for (int64_t i = block * 256; i < block * 256 + 256; i += BYTES / 8)
      stream_v((float *)(c + i), (vf)(3.0 * (vd) * (const vd_anywhere *)(b + i) + (vd) * (const vd_anywhere *)(a + i)));
  streamed();
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
  vf s[8] = {};
  int64_t i = 0;
  if (n < LANES) {
    float sum = 0;
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
  }
  for (; i + 8 * LANES <= n; i += 8 * LANES)
    for (int u = 0; u < 8; u++) s[u] += load_v(a + i + LANES * u) * load_v(b + i + LANES * u);
  for (; i + LANES <= n; i += LANES) s[0] += load_v(a + i) * load_v(b + i);
  if (i < n) s[1] += last_v(a, n, n - i) * last_v(b, n, n - i);
  for (int u = 4; u; u /= 2)
    for (int v = 0; v < u; v++) s[v] += s[v + u];
  return sum_v(s[0]);
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
  const int64_t four = k < LANES ? 0 : m / 4;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i0 = 0; i0 < four; i0++) {
    const float *r = a + i0 * 4 * k;
    vf s[8] = {};
    int64_t j = 0;
    for (; j + 2 * LANES <= k; j += 2 * LANES) {
      vf x0 = load_v(x + j), x1 = load_v(x + j + LANES);
      for (int u = 0; u < 4; u++) {
        s[2 * u] += load_v(r + u * k + j) * x0;
        s[2 * u + 1] += load_v(r + u * k + j + LANES) * x1;
      }
    }
    for (; j + LANES <= k; j += LANES)
      for (int u = 0; u < 4; u++) s[2 * u] += load_v(r + u * k + j) * load_v(x + j);
    if (j < k)
      for (int u = 0; u < 4; u++) s[2 * u + 1] += last_v(r + u * k, k, k - j) * last_v(x, k, k - j);
    for (int u = 0; u < 4; u++) y[i0 * 4 + u] = sum_v(s[2 * u] + s[2 * u + 1]);
  }
  for (int64_t i = four * 4; i < m; i++) y[i] = dot_part(a + i * k, x, k);
}

#define STAR5(k, t) \
  r = (load_##k(p + j) + load_##k(p + j - w) + load_##k(p + j + w) + (load_##k(p + j - 1) + load_##k(p + j + 1))) * scale

// b = c (a + four neighbours): a is (n + 2) x (n + 2), b is n x n.
void jacobi2d_f32(const float *RESTRICT a, float *RESTRICT b, float scale, int64_t n, int threads) {
  const int64_t w = n + 2;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float *p = a + (i + 1) * w + 1;
    ROW(b + i * n, n, STAR5);
  }
  streamed();
}

#define STAR7(k, t)                                                                                           \
  r = (load_##k(p + j) + load_##k(p + j - s) + load_##k(p + j + s) + load_##k(p + j - w) + load_##k(p + j + w) + \
       load_##k(p + j - 1) + load_##k(p + j + 1)) * scale

// b = c (a + six neighbours): a is (n + 2)^3, b is n^3; rows are blocked so that three planes stay in the second-level cache.
void jacobi3d_f32(const float *RESTRICT a, float *RESTRICT b, float scale, int64_t n, int threads) {
  const int64_t w = n + 2, s = w * w, tile = 64;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t yo = 0; yo < n; yo += tile)
    for (int64_t i = 0; i < n; i++)
      for (int64_t y = yo; y < (yo + tile < n ? yo + tile : n); y++) {
        const float *p = a + (i + 1) * s + (y + 1) * w + 1;
        ROW(b + (i * n + y) * n, n, STAR7);
      }
  streamed();
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
