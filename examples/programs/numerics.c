/* The programs of numerics.lathe in plain C. Sizes are macros. */
#include <math.h>
#include <stdint.h>

#ifdef KERNEL_black_scholes
static double normal(double x) { return 0.5 * erfc(-x * 0.7071067811865476); }

void black_scholes(const double price[restrict N], const double strike[restrict N], const double years[restrict N],
    double call[restrict N], double put[restrict N]) {
    const double rate = 0.02, volatility = 0.3;
    for (int i = 0; i < N; i++) {
        const double spread = volatility * sqrt(years[i]);
        const double above = (log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / spread;
        const double below = above - spread, discounted = strike[i] * exp(-rate * years[i]);
        call[i] = price[i] * normal(above) - discounted * normal(below);
        put[i] = discounted * normal(-below) - price[i] * normal(-above);
    }
}
#endif

#ifdef KERNEL_n_body
void n_body(const double mass[restrict N], double x[restrict N][3], double v[restrict N][3], const long *steps) {
    static double a[N][3];
    for (long t = 0; t < *steps; t++) {
        for (int i = 0; i < N; i++) {
            double ax = 0, ay = 0, az = 0;
            for (int j = 0; j < N; j++) {
                const double dx = x[j][0] - x[i][0], dy = x[j][1] - x[i][1], dz = x[j][2] - x[i][2];
                const double far = dx * dx + dy * dy + dz * dz + 0.01, pull = mass[j] / (far * sqrt(far));
                ax += pull * dx;
                ay += pull * dy;
                az += pull * dz;
            }
            a[i][0] = ax;
            a[i][1] = ay;
            a[i][2] = az;
        }
        for (int i = 0; i < N; i++)
            for (int d = 0; d < 3; d++) {
                v[i][d] += 0.01 * a[i][d];
                x[i][d] += 0.01 * v[i][d];
            }
    }
}
#endif

#ifdef KERNEL_csr_product
void csr_product(const double value[restrict Z], const int32_t column[restrict Z], const int64_t start[restrict M1],
    const double x[restrict N], double y[restrict M]) {
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int64_t k = start[i]; k < start[i + 1]; k++) sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}
#endif

#ifdef KERNEL_fft
static void step(const double re[restrict 2 * M][B], const double im[restrict 2 * M][B], double a[restrict 2 * M][B],
    double b[restrict 2 * M][B], const double cosine[restrict M], const double sine[restrict M]) {
    for (int k = 0; k < M; k++)
        for (int c = 0; c < B; c++) {
            const double x = re[k][c] - re[k + M][c], y = im[k][c] - im[k + M][c];
            a[2 * k][c] = re[k][c] + re[k + M][c];
            b[2 * k][c] = im[k][c] + im[k + M][c];
            a[2 * k + 1][c] = x * cosine[k] + y * sine[k];
            b[2 * k + 1][c] = y * cosine[k] - x * sine[k];
        }
}

void fft(double re[restrict 2 * M][B], double im[restrict 2 * M][B], const double cosine[restrict 2 * H][M],
    const double sine[restrict 2 * H][M], const int32_t order[restrict 2 * M], double real[restrict 2 * M][B],
    double imaginary[restrict 2 * M][B]) {
    static double a[2 * M][B], b[2 * M][B];
    for (int t = 0; t < H; t++) {
        step(re, im, a, b, cosine[2 * t], sine[2 * t]);
        step(a, b, re, im, cosine[2 * t + 1], sine[2 * t + 1]);
    }
    for (int i = 0; i < 2 * M; i++)
        for (int c = 0; c < B; c++) {
            real[i][c] = re[order[i]][c];
            imaginary[i][c] = im[order[i]][c];
        }
}
#endif
