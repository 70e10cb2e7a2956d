// Hand-written rivals of the stencils in examples/patterns: one row at a time, the machine's vectors, streaming stores. A
// border of one cell (two for gaussian) surrounds the input. Built into rivals.so by benches/setup.sh.
#include "stream.h"

static inline vf clip_v(vf x) { return max_v(splat(0), min_v(splat(1), x)); }
static inline float clip_s(float x) { return fmaxf(0, fminf(1, x)); }

#define G_ROW(k, d, a, b, c) ((a) * (load_##k(p + j + (d) * w - 2) + load_##k(p + j + (d) * w + 2)) + \
  (b) * (load_##k(p + j + (d) * w - 1) + load_##k(p + j + (d) * w + 1)) + (c) * load_##k(p + j + (d) * w))
#define GAUSSIAN(k, t) r = (G_ROW(k, -2, 2.f, 4.f, 5.f) + G_ROW(k, -1, 4.f, 9.f, 12.f) + G_ROW(k, 0, 5.f, 12.f, 15.f) + \
  G_ROW(k, 1, 4.f, 9.f, 12.f) + G_ROW(k, 2, 2.f, 4.f, 5.f)) * (1.f / 159.f)

void gaussian_f32(const float *RESTRICT a, float *RESTRICT b, int64_t n, int threads) {
  const int64_t w = n + 4;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float *p = a + (i + 2) * w + 2;
    ROW(b + i * n, n, GAUSSIAN);
  }
  streamed();
}

#define AT(k, o) load_##k(p + j + (o))
#define GRADIENT(k, t) t c = AT(k, 0), d0 = c - AT(k, -w), d1 = c - AT(k, w), d2 = c - AT(k, -1), d3 = c - AT(k, 1); \
  r = sqrt_##k(d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3)

void gradient_f32(const float *RESTRICT a, float *RESTRICT b, int64_t n, int threads) {
  const int64_t w = n + 2;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float *p = a + (i + 1) * w + 1;
    ROW(b + i * n, n, GRADIENT);
  }
  streamed();
}

#define HOTSPOT2D(k, t) t c = AT(k, 0); r = c + load_##k(power + i * n + j) + sy * (AT(k, -w) + AT(k, w) - 2.f * c) + \
  sx * (AT(k, -1) + AT(k, 1) - 2.f * c) + sz * (air - c)

void hotspot2d_f32(const float *RESTRICT a, const float *RESTRICT power, float *RESTRICT b, float sx, float sy, float sz,
                   float air, int64_t n, int threads) {
  const int64_t w = n + 2;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float *p = a + (i + 1) * w + 1;
    ROW(b + i * n, n, HOTSPOT2D);
  }
  streamed();
}

#define SRAD(k, t) t h = AT(k, 0), d0 = AT(k, -w) - h, d1 = AT(k, w) - h, d2 = AT(k, -1) - h, d3 = AT(k, 1) - h; \
  t slope = (d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3) / (h * h), curve = (d0 + d1 + d2 + d3) / h; \
  t e = 1.f + 0.25f * curve, q = (0.5f * slope - 0.0625f * curve * curve) / (e * e); \
  r = clip_##k(1.f / (1.f + (q - q0) / (q0 * (1.f + q0))))

void srad_f32(const float *RESTRICT a, float *RESTRICT b, float q0, int64_t n, int threads) {
  const int64_t w = n + 2;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float *p = a + (i + 1) * w + 1;
    ROW(b + i * n, n, SRAD);
  }
  streamed();
}

// In three dimensions rows are blocked, so that three planes of a block stay in the second-level cache.
#define PLANES(n)                               \
  _Pragma("omp parallel for num_threads(threads) schedule(static)") \
  for (int64_t jo = 0; jo < (n); jo += 64)      \
    for (int64_t i = 0; i < (n); i++)           \
      for (int64_t y = jo; y < (jo + 64 < (n) ? jo + 64 : (n)); y++)

#define HOTSPOT3D(k, t) r = c * AT(k, 0) + e * (AT(k, -1) + AT(k, 1)) + no * (AT(k, -w) + AT(k, w)) + \
  u * (AT(k, -pl) + AT(k, pl)) + s * load_##k(power + (i * n + y) * n + j) + u * air

void hotspot3d_f32(const float *RESTRICT a, const float *RESTRICT power, float *RESTRICT b, float c, float e, float no,
                   float u, float s, float air, int64_t n, int threads) {
  const int64_t w = n + 2, pl = w * w;
  PLANES(n) {
    const float *p = a + (i + 1) * pl + (y + 1) * w + 1;
    ROW(b + (i * n + y) * n, n, HOTSPOT3D);
  }
  streamed();
}

// The inner cells of a row have six neighbours less the walls beside the row; the two at its ends one less.
#define ACOUSTIC(k, t) t v = around - load_##k(ends + j), wl = 0.5f * loss * (6.f - v); \
  r = ((2.f - kk * v) * AT(k, 0) + kk * (AT(k, -pl) + AT(k, pl) + AT(k, -w) + AT(k, w) + AT(k, -1) + AT(k, 1)) + \
       (wl - 1.f) * load_##k(before + (i * n + y) * n + j)) / (1.f + wl)

// `ends` is 1 at both ends of a row of n cells, else 0.
void acoustic_f32(const float *RESTRICT before, const float *RESTRICT a, const float *RESTRICT ends, float *RESTRICT b,
                  float kk, float loss, int64_t n, int threads) {
  const int64_t w = n + 2, pl = w * w;
  PLANES(n) {
    const float *p = a + (i + 1) * pl + (y + 1) * w + 1;
    const float around = 6.f - (i == 0) - (i == n - 1) - (y == 0) - (y == n - 1);
    ROW(b + (i * n + y) * n, n, ACOUSTIC);
  }
  streamed();
}
