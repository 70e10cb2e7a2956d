// GradBench's evals with derivatives written by hand. `eval` is the program, `eval_d` its derivative in `g`; scratch is `w`.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

using std::cos, std::exp, std::log, std::sin, std::sqrt, std::tanh;
#include "programs.hpp"

using Program = void(const long *, const int *, const double *, const double *, double *, double *);
#define PROGRAM(name) \
    extern "C" void name##_p(const long *n, const int *at, const double *c, const double *x, double *y, double *w) { name<double>(n, at, c, x, y, w); }
PROGRAM(llsq) PROGRAM(lse) PROGRAM(ode) PROGRAM(det) PROGRAM(gmm) PROGRAM(kmeans) PROGRAM(lstm) PROGRAM(hand)

#define DERIVATIVE(name) extern "C" void name##_d(const long *n, const int *at, const double *c, const double *x, double *g, double *w)

DERIVATIVE(llsq) {
    const long M = n[0], N = n[1];
    for (long j = 0; j < M; j++) g[j] = 0;
    for (long from = 0; from < N; from += 256) {
        const long B = std::min(256L, N - from);
        const double *t = c + from;
        double r[256];
        for (long i = 0; i < B; i++) r[i] = 0;
        for (long j = M - 1; j >= 0; j--)
            for (long i = 0; i < B; i++) r[i] = r[i] * t[i] + x[j];
        for (long i = 0; i < B; i++) r[i] -= t[i] > 0 ? 1 : t[i] < 0 ? -1 : 0;
        for (long j = 0; j < M; j++) {
            double sum = 0;
            for (long i = 0; i < B; i++) sum += r[i], r[i] *= t[i];
            g[j] += sum;
        }
    }
}

DERIVATIVE(lse) {
    double top = x[0], total = 0;
    for (long i = 1; i < n[0]; i++) top = std::max(top, x[i]);
    for (long i = 0; i < n[0]; i++) total += g[i] = exp(x[i] - top);
    for (long i = 0; i < n[0]; i++) g[i] /= total;
}

// Of the last result.
DERIVATIVE(ode) {
    const long N = n[0], T = n[1];
    const double h = 2.0 / T;
    double *z = w, *a = z + N * T, *b = a + N, *d = b + N, *to = d + N, *by_a = to + N + 1, *by_b = by_a + N + 1, *by_c = by_b + N + 1, *by_d = by_c + N + 1;
    auto stages = [&](const double *z) {
        a[0] = b[0] = d[0] = x[0];
        for (long i = 1; i < N; i++) a[i] = x[i] * z[i - 1];
        for (long i = 1; i < N; i++) b[i] = x[i] * (z[i - 1] + h * 0.5 * a[i - 1]);
        for (long i = 1; i < N; i++) d[i] = x[i] * (z[i - 1] + h * 0.5 * b[i - 1]);
    };
    for (long i = 0; i < N; i++) z[i] = g[i] = to[i] = 0;
    for (long t = 0; t + 1 < T; t++) {
        const double *now = z + t * N;
        double *then = z + (t + 1) * N;
        stages(now);
        then[0] = now[0] + h * x[0];
        for (long i = 1; i < N; i++) then[i] = now[i] + h / 6 * (a[i] + 2 * b[i] + 2 * d[i] + x[i] * (now[i - 1] + h * d[i - 1]));
    }
    to[N - 1] = 1, to[N] = by_a[N] = by_b[N] = by_c[N] = by_d[N] = 0;
    for (long t = T - 1; t >= 0; t--) {
        const double *now = z + t * N;
        stages(now);
        for (long i = 0; i < N; i++) by_d[i] = h / 6 * to[i];
        for (long i = 0; i + 1 < N; i++) by_c[i] = h / 3 * to[i] + h * x[i + 1] * by_d[i + 1];
        by_c[N - 1] = h / 3 * to[N - 1];
        for (long i = 0; i + 1 < N; i++) by_b[i] = h / 3 * to[i] + h * 0.5 * x[i + 1] * by_c[i + 1];
        by_b[N - 1] = h / 3 * to[N - 1];
        for (long i = 0; i + 1 < N; i++) by_a[i] = h / 6 * to[i] + h * 0.5 * x[i + 1] * by_b[i + 1];
        by_a[N - 1] = h / 6 * to[N - 1];
        for (long i = 0; i + 1 < N; i++) to[i] += x[i + 1] * (by_a[i + 1] + by_b[i + 1] + by_c[i + 1] + by_d[i + 1]);
        g[0] += by_a[0] + by_b[0] + by_c[0] + by_d[0];
        for (long i = 1; i < N; i++)
            g[i] += (by_a[i] + by_b[i] + by_c[i] + by_d[i]) * now[i - 1] + h * (0.5 * (by_b[i] * a[i - 1] + by_c[i] * b[i - 1]) + by_d[i] * d[i - 1]);
    }
}

DERIVATIVE(det) {
    const int N = n[0], all = 1 << N;
    double y, *bar = w + all;
    det(n, at, c, x, &y, w);
    std::memset(bar, 0, sizeof(double) * all);
    std::memset(g, 0, sizeof(double) * N * N);
    bar[all - 1] = 1;
    for (int s = all - 1; s; s--) {
        const int row = N - __builtin_popcount(s);
        double sign = bar[s];
        for (int rest = s; rest; rest &= rest - 1) {
            const int j = __builtin_ctz(rest);
            g[row * N + j] += sign * w[s ^ 1 << j];
            bar[s ^ 1 << j] += sign * x[row * N + j];
            sign = -sign;
        }
    }
}

DERIVATIVE(gmm) {
    const long D = n[0], K = n[1], N = n[2], E = D * (D - 1) / 2;
    const double gamma = c[0], m = c[1], *p = c + 3;
    const double *alpha = x, *mu = alpha + K, *q = mu + K * D, *l = q + K * D;
    double *by_alpha = g, *by_mu = by_alpha + K, *by_q = by_mu + K * D, *by_l = by_q + K * D;
    double *diagonal = w, *volume = diagonal + K * D, *term = volume + K, *far = term + K * BLOCK, *moved = far + K * D * BLOCK;
    double high = *std::max_element(alpha, alpha + K), weights = 0;
    for (long k = 0; k < K; k++) weights += exp(alpha[k] - high);
    for (long k = 0; k < K; k++) {
        by_alpha[k] = -N * exp(alpha[k] - high) / weights;
        volume[k] = 0;
        for (long d = k * D; d < (k + 1) * D; d++) {
            diagonal[d] = exp(q[d]);
            volume[k] += q[d];
            by_q[d] = m - gamma * gamma * diagonal[d] * diagonal[d];
            by_mu[d] = 0;
        }
        for (long e = k * E; e < (k + 1) * E; e++) by_l[e] = -gamma * gamma * l[e];
    }
    for (long from = 0; from < N; from += BLOCK) {
        const long B = std::min(BLOCK, N - from);
        for (long k = 0; k < K; k++) {
            double *f = far + k * D * BLOCK, *v = moved + k * D * BLOCK, *to = term + k * BLOCK;
            for (long d = 0; d < D; d++)
                for (long b = 0; b < B; b++) {
                    f[d * BLOCK + b] = p[d * N + from + b] - mu[k * D + d];
                    v[d * BLOCK + b] = diagonal[k * D + d] * f[d * BLOCK + b];
                }
            const double *factor = l + k * E;
            for (long j = 0; j < D; j++)
                for (long i = j + 1; i < D; i++, factor++)
                    for (long b = 0; b < B; b++) v[i * BLOCK + b] += *factor * f[j * BLOCK + b];
            for (long b = 0; b < B; b++) to[b] = alpha[k] + volume[k];
            for (long d = 0; d < D; d++)
                for (long b = 0; b < B; b++) to[b] -= 0.5 * v[d * BLOCK + b] * v[d * BLOCK + b];
        }
        double top[BLOCK], total[BLOCK];
        for (long b = 0; b < B; b++) top[b] = term[b], total[b] = 0;
        for (long k = 1; k < K; k++)
            for (long b = 0; b < B; b++) top[b] = std::max(top[b], term[k * BLOCK + b]);
        for (long k = 0; k < K; k++)
            for (long b = 0; b < B; b++) total[b] += term[k * BLOCK + b] = exp(term[k * BLOCK + b] - top[b]);
        for (long k = 0; k < K; k++) {
            double *f = far + k * D * BLOCK, *v = moved + k * D * BLOCK, *share = term + k * BLOCK, sum = 0;
            for (long b = 0; b < B; b++) sum += share[b] /= total[b];
            by_alpha[k] += sum;
            for (long d = 0; d < D; d++) {
                double along = 0, across = 0;
                for (long b = 0; b < B; b++) {
                    v[d * BLOCK + b] *= share[b];
                    along += v[d * BLOCK + b] * f[d * BLOCK + b];
                    across += v[d * BLOCK + b];
                }
                by_q[k * D + d] += sum - along * diagonal[k * D + d];
                by_mu[k * D + d] += across * diagonal[k * D + d];
            }
            long e = k * E;
            for (long j = 0; j < D; j++)
                for (long i = j + 1; i < D; i++, e++) {
                    double by = 0, across = 0;
                    for (long b = 0; b < B; b++) {
                        by += v[i * BLOCK + b] * f[j * BLOCK + b];
                        across += v[i * BLOCK + b];
                    }
                    by_l[e] -= by;
                    by_mu[k * D + j] += across * l[e];
                }
        }
    }
}

// A step of Newton's method: twice the distances over twice the number of points.
DERIVATIVE(kmeans) {
    const long K = n[0], N = n[1], D = n[2];
    std::fill(g, g + K * D, 0.0);
    std::fill(w, w + K, 0.0);
    for (long i = 0; i < N; i++) {
        long nearest = 0;
        double least = 0;
        for (long k = 0; k < K; k++) {
            double far = 0;
            for (long d = 0; d < D; d++) far += (c[i * D + d] - x[k * D + d]) * (c[i * D + d] - x[k * D + d]);
            if (k == 0 || far < least) least = far, nearest = k;
        }
        w[nearest] += 1;
        for (long d = 0; d < D; d++) g[nearest * D + d] += x[nearest * D + d] - c[i * D + d];
    }
    for (long k = 0; k < K; k++)
        for (long d = 0; d < D; d++) g[k * D + d] /= w[k];
}

DERIVATIVE(lstm) {
    const long L = n[0], H = n[1], C = n[2], R = 8 * H;
    const double *text = c + L * 2 * H, *extra = x + L * 8 * H, scale = 1 / (double(C - 1) * double(H));
    // Of each step and layer: what comes in, h and cell before, the four gates, tanh of the new cell.
    double *kept = w, *share = kept + (C - 1) * L * R, *last = share + (C - 1) * H, *h = last + (C - 1) * H, *cell = h + L * H, *signal = cell + L * H;
    for (long k = 0; k < L; k++)
        for (long i = 0; i < H; i++) h[k * H + i] = c[2 * k * H + i], cell[k * H + i] = c[(2 * k + 1) * H + i];
    for (long t = 0; t + 1 < C; t++) {
        for (long i = 0; i < H; i++) signal[i] = text[t * H + i] * extra[i];
        for (long k = 0; k < L; k++) {
            const double *a = x + k * 8 * H, *b = a + 4 * H;
            double *r = kept + (t * L + k) * R;
            for (long i = 0; i < H; i++) {
                r[i] = signal[i], r[H + i] = h[k * H + i], r[2 * H + i] = cell[k * H + i];
                const double forget = 1 / (1 + exp(-(signal[i] * a[i] + b[i]))), enter = 1 / (1 + exp(-(h[k * H + i] * a[H + i] + b[H + i])));
                const double leave = 1 / (1 + exp(-(signal[i] * a[2 * H + i] + b[2 * H + i]))), change = tanh(h[k * H + i] * a[3 * H + i] + b[3 * H + i]);
                cell[k * H + i] = cell[k * H + i] * forget + enter * change;
                const double bent = tanh(cell[k * H + i]);
                r[3 * H + i] = forget, r[4 * H + i] = enter, r[5 * H + i] = leave, r[6 * H + i] = change, r[7 * H + i] = bent;
                signal[i] = h[k * H + i] = leave * bent;
            }
        }
        double total = 2;
        for (long i = 0; i < H; i++) total += share[t * H + i] = exp(signal[i] * extra[H + i] + extra[2 * H + i]), last[t * H + i] = signal[i];
        for (long i = 0; i < H; i++) share[t * H + i] /= total;
    }
    const long all = L * 8 * H;
    std::fill(g, g + all + 3 * H, 0.0);
    std::fill(h, h + 2 * L * H, 0.0);
    for (long t = C - 2; t >= 0; t--) {
        double count = 0;
        for (long i = 0; i < H; i++) count += text[(t + 1) * H + i];
        for (long i = 0; i < H; i++) {
            const double by = scale * (count * share[t * H + i] - text[(t + 1) * H + i]);
            g[all + H + i] += by * last[t * H + i];
            g[all + 2 * H + i] += by;
            signal[i] = by * extra[H + i];
        }
        for (long k = L - 1; k >= 0; k--) {
            const double *a = x + k * 8 * H, *r = kept + (t * L + k) * R;
            double *to = g + k * 8 * H;
            for (long i = 0; i < H; i++) {
                const double in = r[i], before = r[H + i], forget = r[3 * H + i], enter = r[4 * H + i], leave = r[5 * H + i], change = r[6 * H + i], bent = r[7 * H + i];
                const double by_h = h[k * H + i] + signal[i], by_cell = cell[k * H + i] + by_h * leave * (1 - bent * bent);
                const double by_forget = by_cell * r[2 * H + i] * forget * (1 - forget), by_enter = by_cell * change * enter * (1 - enter);
                const double by_leave = by_h * bent * leave * (1 - leave), by_change = by_cell * enter * (1 - change * change);
                to[i] += by_forget * in, to[H + i] += by_enter * before, to[2 * H + i] += by_leave * in, to[3 * H + i] += by_change * before;
                to[4 * H + i] += by_forget, to[5 * H + i] += by_enter, to[6 * H + i] += by_leave, to[7 * H + i] += by_change;
                cell[k * H + i] = by_cell * forget;
                h[k * H + i] = by_enter * a[H + i] + by_change * a[3 * H + i];
                signal[i] = by_forget * a[i] + by_leave * a[2 * H + i];
            }
        }
        for (long i = 0; i < H; i++) g[all + i] += signal[i] * text[t * H + i];
    }
}

// All observations; n: cameras, points, observations; c: where they were seen; x: cameras, points, weights.
extern "C" void ba_p(const long *n, const int *, const double *c, const double *x, double *y, double *) {
    for (long q = 0; q < n[2]; q++) {
        double own[15];
        std::memcpy(own, x + q % n[0] * 11, sizeof(double) * 11);
        std::memcpy(own + 11, x + n[0] * 11 + q % n[1] * 3, sizeof(double) * 3);
        own[14] = x[n[0] * 11 + n[1] * 3 + q];
        ba<double>(nullptr, nullptr, c + 2 * q, own, y + 2 * q, nullptr);
        y[2 * n[2] + q] = 1 - own[14] * own[14];
    }
}

// Two rows of 15 an observation, then one element a weight.
DERIVATIVE(ba) {
    for (long o = 0; o < n[2]; o++) {
        const double *k = x + o % n[0] * 11, *X = x + n[0] * 11 + o % n[1] * 3, w = x[n[0] * 11 + n[1] * 3 + o];
        const double angle = sqrt(k[0] * k[0] + k[1] * k[1] + k[2] * k[2]), s = sin(angle), co = cos(angle), less = 1 - co;
        const double a[3] = {k[0] / angle, k[1] / angle, k[2] / angle}, p[3] = {X[0] - k[3], X[1] - k[4], X[2] - k[5]};
        const double dot = a[0] * p[0] + a[1] * p[1] + a[2] * p[2];
        const double cross[3] = {a[1] * p[2] - a[2] * p[1], a[2] * p[0] - a[0] * p[2], a[0] * p[1] - a[1] * p[0]};
        double turned[3], by_angle[3];
        for (int i = 0; i < 3; i++) {
            turned[i] = p[i] * co + cross[i] * s + a[i] * dot * less;
            by_angle[i] = -p[i] * s + cross[i] * co + a[i] * dot * s;
        }
        const double R[3][3] = {{co + less * a[0] * a[0], less * a[0] * a[1] - s * a[2], less * a[0] * a[2] + s * a[1]},
                                {less * a[0] * a[1] + s * a[2], co + less * a[1] * a[1], less * a[1] * a[2] - s * a[0]},
                                {less * a[0] * a[2] - s * a[1], less * a[1] * a[2] + s * a[0], co + less * a[2] * a[2]}};
        const double P[3][3] = {{0, p[2], -p[1]}, {-p[2], 0, p[0]}, {p[1], -p[0], 0}};
        double turn[3][3];
        for (int i = 0; i < 3; i++) {
            double by_axis[3], along = 0;
            for (int j = 0; j < 3; j++) {
                by_axis[j] = P[i][j] * s + less * ((i == j ? dot : 0) + a[i] * p[j]);
                along += by_axis[j] * a[j];
            }
            for (int j = 0; j < 3; j++) turn[i][j] = by_angle[i] * a[j] + (by_axis[j] - along * a[j]) / angle;
        }
        const double one = 1 / turned[2], e[2] = {turned[0] * one, turned[1] * one}, far = e[0] * e[0] + e[1] * e[1];
        const double bend = 1 + k[9] * far + k[10] * far * far, slope = 2 * (k[9] + 2 * k[10] * far), f = k[6] * bend;
        for (int r = 0; r < 2; r++) {
            double *row = g + 30 * o + 15 * r, by[3];
            const double by_g = w * k[6] * (slope * e[r] * e[0] + (r == 0 ? bend : 0)), by_h = w * k[6] * (slope * e[r] * e[1] + (r == 1 ? bend : 0));
            by[0] = by_g * one, by[1] = by_h * one, by[2] = -(by_g * e[0] + by_h * e[1]) * one;
            for (int j = 0; j < 3; j++) {
                row[j] = by[0] * turn[0][j] + by[1] * turn[1][j] + by[2] * turn[2][j];
                row[11 + j] = by[0] * R[0][j] + by[1] * R[1][j] + by[2] * R[2][j];
                row[3 + j] = -row[11 + j];
            }
            row[6] = w * bend * e[r];
            row[7] = r == 0 ? w : 0, row[8] = r == 1 ? w : 0;
            row[9] = w * k[6] * far * e[r], row[10] = w * k[6] * far * far * e[r];
            row[14] = f * e[r] + k[7 + r] - c[2 * o + r];
        }
        g[30 * n[2] + o] = -2 * w;
    }
}

// Columns of the Jacobian, each of 3 C elements: the two places on a triangle if they are active, then theta. A finger's parameters
// move the bones that come after a joint; the rest of the hand stays.
DERIVATIVE(hand) {
    const long B = n[0], V = n[1], C = n[2], Y = 3 * C, corners = n[3] ? 3 : 1;
    const int *bend = at, *turn = bend + B, *parent = turn + B, *corner = parent + B;
    const double *relative = c, *inverse = relative + 16 * B, *base = inverse + 16 * B, *weight = base + 4 * V, side = weight[V * B];
    double *absolute = w, *bone = absolute + 16 * B, *place = bone + 12 * B;
    double *skin = place + 3 * V, *locals = skin + 9 * C, *moves = locals + 16 * B;
    // The program once more, which leaves bones and places.
    hand(n, at, c, x, g, w);
    for (long b = 0; b < B; b++) {
        const double *r = relative + 16 * b, cx = bend[b] < 26 ? cos(x[bend[b]]) : 1, sx = bend[b] < 26 ? sin(x[bend[b]]) : 0;
        const double cz = turn[b] < 26 ? cos(x[turn[b]]) : 1, sz = turn[b] < 26 ? sin(x[turn[b]]) : 0;
        for (int i = 0; i < 4; i++) {
            double *l = locals + 16 * b + 4 * i;
            l[0] = r[4 * i] * cz + r[4 * i + 1] * sz, l[1] = (r[4 * i + 1] * cz - r[4 * i] * sz) * cx + r[4 * i + 2] * sx;
            l[2] = (r[4 * i] * sz - r[4 * i + 1] * cz) * sx + r[4 * i + 2] * cx, l[3] = r[4 * i + 3];
        }
    }
    const double size = sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), a[3] = {x[0] / size, x[1] / size, x[2] / size}, s = sin(size), k = cos(size);
    double R[3][3], D[3][3][3];
    const double across[3][3] = {{0, -a[2], a[1]}, {a[2], 0, -a[0]}, {-a[1], a[0], 0}};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            R[i][j] = (i == j ? k : 0) + (1 - k) * a[i] * a[j] + s * across[i][j];
            const double by_size = (i == j ? -s : 0) + s * a[i] * a[j] + k * across[i][j];
            for (int d = 0; d < 3; d++) {
                // The axis changes by (e_d - a a_d) / size.
                const double da[3] = {((d == 0) - a[0] * a[d]) / size, ((d == 1) - a[1] * a[d]) / size, ((d == 2) - a[2] * a[d]) / size};
                const int o = 3 - i - j;
                const double sign = i == j ? 0 : (j - i + 3) % 3 == 1 ? -1 : 1;
                D[d][i][j] = by_size * a[d] + (1 - k) * (da[i] * a[j] + a[i] * da[j]) + s * sign * (i == j ? 0 : da[o]);
            }
        }
    auto vertex = [&](long t, int z) { return corner[3 * t + z]; };
    auto share = [&](long t, int z) { return !n[3] ? 1.0 : z == 0 ? x[26 + 2 * t] : z == 1 ? x[27 + 2 * t] : 1 - x[26 + 2 * t] - x[27 + 2 * t]; };
    double *column = g;
    if (n[3]) {
        for (int z = 0; z < 2; z++, column += Y)
            for (long t = 0; t < C; t++)
                for (int i = 0; i < 3; i++) column[3 * t + i] = place[3 * vertex(t, 2) + i] - place[3 * vertex(t, z) + i];
    }
    // Points before they are rotated, by the places after: the rotation's transpose is its inverse.
    for (long t = 0; t < C; t++) {
        double p[3] = {0, 0, 0};
        for (int z = 0; z < corners; z++)
            for (int i = 0; i < 3; i++) p[i] += share(t, z) * (place[3 * vertex(t, z) + i] - x[3 + i]);
        for (int i = 0; i < 3; i++) skin[3 * t + i] = R[0][i] * p[0] + R[1][i] * p[1] + R[2][i] * p[2];
    }
    for (int d = 0; d < 3; d++, column += Y)
        for (long t = 0; t < C; t++)
            for (int i = 0; i < 3; i++) column[3 * t + i] = -(D[d][i][0] * skin[3 * t] + D[d][i][1] * skin[3 * t + 1] + D[d][i][2] * skin[3 * t + 2]);
    for (int d = 0; d < 3; d++, column += Y)
        for (long t = 0; t < C; t++)
            for (int i = 0; i < 3; i++) column[3 * t + i] = i == d ? -1 : 0;
    for (int d = 6; d < 26; d++, column += Y) {
        std::vector<int> moved;
        std::vector<char> does(B, 0);
        for (long b = 0; b < B; b++) {
            double *to = moves + 16 * b;
            const bool here = bend[b] == d || turn[b] == d;
            if (here) {
                const double *r = relative + 16 * b, cx = bend[b] < 26 ? cos(x[bend[b]]) : 1, sx = bend[b] < 26 ? sin(x[bend[b]]) : 0;
                const double cz = turn[b] < 26 ? cos(x[turn[b]]) : 1, sz = turn[b] < 26 ? sin(x[turn[b]]) : 0;
                double l[16];
                for (int i = 0; i < 4; i++) {
                    const double *m = r + 4 * i;
                    l[4 * i + 3] = 0;
                    if (bend[b] == d)
                        l[4 * i] = 0, l[4 * i + 1] = -(m[1] * cz - m[0] * sz) * sx + m[2] * cx, l[4 * i + 2] = (m[0] * sz - m[1] * cz) * cx - m[2] * sx;
                    else
                        l[4 * i] = -m[0] * sz + m[1] * cz, l[4 * i + 1] = (-m[1] * sz - m[0] * cz) * cx, l[4 * i + 2] = (m[0] * cz + m[1] * sz) * sx;
                }
                const double *from = absolute + 16 * parent[b];
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++)
                        to[4 * i + j] = parent[b] < 0 ? l[4 * i + j] : from[4 * i] * l[j] + from[4 * i + 1] * l[4 + j] + from[4 * i + 2] * l[8 + j] + from[4 * i + 3] * l[12 + j];
            } else if (parent[b] >= 0 && does[parent[b]]) {
                const double *from = moves + 16 * parent[b], *l = locals + 16 * b;
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++) to[4 * i + j] = from[4 * i] * l[j] + from[4 * i + 1] * l[4 + j] + from[4 * i + 2] * l[8 + j] + from[4 * i + 3] * l[12 + j];
            } else
                continue;
            does[b] = 1;
            moved.push_back(b);
        }
        for (int b : moved) {
            // Rotated and with the side, so that a point takes one product.
            const double *m = moves + 16 * b, *v = inverse + 16 * b;
            double bone_d[3][4];
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 4; j++) bone_d[i][j] = m[4 * i] * v[j] + m[4 * i + 1] * v[4 + j] + m[4 * i + 2] * v[8 + j] + m[4 * i + 3] * v[12 + j];
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 4; j++) bone[12 * b + 4 * i + j] = R[i][0] * side * bone_d[0][j] + R[i][1] * bone_d[1][j] + R[i][2] * bone_d[2][j];
        }
        for (long t = 0; t < C; t++) {
            double p[3] = {0, 0, 0};
            for (int z = 0; z < corners; z++) {
                const long v = vertex(t, z);
                for (int b : moved) {
                    const double much = share(t, z) * weight[v * B + b];
                    for (int i = 0; i < 3; i++)
                        p[i] += much * (bone[12 * b + 4 * i] * base[4 * v] + bone[12 * b + 4 * i + 1] * base[4 * v + 1] + bone[12 * b + 4 * i + 2] * base[4 * v + 2] +
                                        bone[12 * b + 4 * i + 3] * base[4 * v + 3]);
                }
            }
            for (int i = 0; i < 3; i++) column[3 * t + i] = -p[i];
        }
    }
}

// Central differences of a program: all derivatives of the result `y[of]`, or, where `of` is negative, the columns of the Jacobian.
extern "C" void differences(Program *f, const long *n, const int *at, const double *c, double *x, long inputs, long results, long of, double *g, double *w) {
    std::vector<double> up(results), down(results);
    for (long i = 0; i < inputs; i++) {
        const double here = x[i], step = 6e-6 * std::max(1.0, std::abs(here));
        x[i] = here + step;
        f(n, at, c, x, up.data(), w);
        x[i] = here - step;
        f(n, at, c, x, down.data(), w);
        x[i] = here;
        if (of >= 0)
            g[i] = (up[of] - down[of]) / (2 * step);
        else
            for (long j = 0; j < results; j++) g[i * results + j] = (up[j] - down[j]) / (2 * step);
    }
}
