// GradBench's evals as programs of an active type S, which tools that differentiate C++ take as they are. All have one form:
// sizes `n`, indices `at`, constants `c`, active inputs `x`, results `y`, and scratch `w`.

template <class S> void llsq(const long *n, const int *, const double *c, const S *x, S *y, S *w) {
    const long M = n[0], N = n[1];
    for (long i = 0; i < N; i++) w[i] = 0.0;
    for (long j = M - 1; j >= 0; j--)
        for (long i = 0; i < N; i++) w[i] = w[i] * c[i] + x[j];
    S loss = 0.0;
    for (long i = 0; i < N; i++) {
        S r = (c[i] > 0 ? 1.0 : c[i] < 0 ? -1.0 : 0.0) - w[i];
        loss += r * r;
    }
    y[0] = 0.5 * loss;
}

template <class S> void lse(const long *n, const int *, const double *, const S *x, S *y, S *) {
    S top = x[0];
    for (long i = 1; i < n[0]; i++)
        if (x[i] > top) top = x[i];
    S total = 0.0;
    for (long i = 0; i < n[0]; i++) total += exp(x[i] - top);
    y[0] = log(total) + top;
}

template <class S> void ode(const long *n, const int *, const double *, const S *x, S *y, S *w) {
    const long N = n[0], T = n[1];
    const double h = 2.0 / T;
    S *a = w, *b = a + N, *c = b + N, *d = c + N;
    for (long i = 0; i < N; i++) y[i] = 0.0;
    for (long t = 0; t < T; t++) {
        a[0] = b[0] = c[0] = d[0] = x[0];
        for (long i = 1; i < N; i++) a[i] = x[i] * y[i - 1];
        for (long i = 1; i < N; i++) b[i] = x[i] * (y[i - 1] + h * 0.5 * a[i - 1]);
        for (long i = 1; i < N; i++) c[i] = x[i] * (y[i - 1] + h * 0.5 * b[i - 1]);
        for (long i = 1; i < N; i++) d[i] = x[i] * (y[i - 1] + h * c[i - 1]);
        for (long i = 0; i < N; i++) y[i] += h / 6 * (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i]);
    }
}

// Minors of the last rows, by their set of columns.
template <class S> void det(const long *n, const int *, const double *, const S *x, S *y, S *w) {
    const int N = n[0];
    w[0] = 1.0;
    for (int s = 1; s < 1 << N; s++) {
        const int row = N - __builtin_popcount(s);
        double sign = 1;
        S sum = 0.0;
        for (int rest = s; rest; rest &= rest - 1) {
            const int j = __builtin_ctz(rest);
            sum += sign * x[row * N + j] * w[s ^ 1 << j];
            sign = -sign;
        }
        w[s] = sum;
    }
    y[0] = w[(1 << N) - 1];
}

// c: gamma, m, constant, the points transposed. Points are taken in blocks.
const long BLOCK = 64;

template <class S> void gmm(const long *n, const int *, const double *c, const S *x, S *y, S *w) {
    const long D = n[0], K = n[1], N = n[2], E = D * (D - 1) / 2;
    const double gamma = c[0], m = c[1], *p = c + 3;
    const S *alpha = x, *mu = alpha + K, *q = mu + K * D, *l = q + K * D;
    S *diagonal = w, *volume = diagonal + K * D, *term = volume + K, *far = term + K * BLOCK, *moved = far + D * BLOCK;
    S prior = 0.0, all = 0.0;
    for (long k = 0; k < K; k++) {
        volume[k] = 0.0;
        for (long d = 0; d < D; d++) {
            diagonal[k * D + d] = exp(q[k * D + d]);
            volume[k] += q[k * D + d];
            prior += 0.5 * gamma * gamma * diagonal[k * D + d] * diagonal[k * D + d];
        }
        for (long e = 0; e < E; e++) prior += 0.5 * gamma * gamma * l[k * E + e] * l[k * E + e];
        prior -= m * volume[k];
    }
    for (long from = 0; from < N; from += BLOCK) {
        const long B = N - from < BLOCK ? N - from : BLOCK;
        for (long k = 0; k < K; k++) {
            for (long d = 0; d < D; d++)
                for (long b = 0; b < B; b++) far[d * BLOCK + b] = p[d * N + from + b] - mu[k * D + d];
            for (long d = 0; d < D; d++)
                for (long b = 0; b < B; b++) moved[d * BLOCK + b] = diagonal[k * D + d] * far[d * BLOCK + b];
            const S *factor = l + k * E;
            for (long j = 0; j < D; j++)
                for (long i = j + 1; i < D; i++, factor++)
                    for (long b = 0; b < B; b++) moved[i * BLOCK + b] += *factor * far[j * BLOCK + b];
            S *to = term + k * BLOCK;
            for (long b = 0; b < B; b++) to[b] = alpha[k] + volume[k];
            for (long d = 0; d < D; d++)
                for (long b = 0; b < B; b++) to[b] -= 0.5 * moved[d * BLOCK + b] * moved[d * BLOCK + b];
        }
        for (long b = 0; b < B; b++) {
            S top = term[b];
            for (long k = 1; k < K; k++)
                if (term[k * BLOCK + b] > top) top = term[k * BLOCK + b];
            S total = 0.0;
            for (long k = 0; k < K; k++) total += exp(term[k * BLOCK + b] - top);
            all += log(total) + top;
        }
    }
    S high = alpha[0], weights = 0.0;
    for (long k = 1; k < K; k++)
        if (alpha[k] > high) high = alpha[k];
    for (long k = 0; k < K; k++) weights += exp(alpha[k] - high);
    y[0] = c[2] + all - double(N) * (log(weights) + high) - prior;
}

template <class S> void kmeans(const long *n, const int *, const double *c, const S *x, S *y, S *) {
    const long K = n[0], N = n[1], D = n[2];
    S cost = 0.0;
    for (long i = 0; i < N; i++) {
        S least = 0.0;
        for (long k = 0; k < K; k++) {
            S far = 0.0;
            for (long d = 0; d < D; d++) {
                S way = c[i * D + d] - x[k * D + d];
                far += way * way;
            }
            if (k == 0 || far < least) least = far;
        }
        cost += least;
    }
    y[0] = cost;
}

// c: state[L, 2, H], text[C, H]; x: main[L, 2, 4, H], extra[3, H].
template <class S> void lstm(const long *n, const int *, const double *c, const S *x, S *y, S *w) {
    const long L = n[0], H = n[1], C = n[2];
    const double *text = c + L * 2 * H;
    const S *extra = x + L * 8 * H;
    S *h = w, *cell = h + L * H, *signal = cell + L * H, *guess = signal + H;
    for (long k = 0; k < L; k++)
        for (long i = 0; i < H; i++) h[k * H + i] = c[2 * k * H + i], cell[k * H + i] = c[(2 * k + 1) * H + i];
    S loss = 0.0;
    for (long t = 0; t + 1 < C; t++) {
        for (long i = 0; i < H; i++) signal[i] = text[t * H + i] * extra[i];
        for (long k = 0; k < L; k++) {
            const S *a = x + k * 8 * H, *b = a + 4 * H;
            for (long i = 0; i < H; i++) {
                S forget = 1.0 / (1.0 + exp(-(signal[i] * a[i] + b[i])));
                S enter = 1.0 / (1.0 + exp(-(h[k * H + i] * a[H + i] + b[H + i])));
                S leave = 1.0 / (1.0 + exp(-(signal[i] * a[2 * H + i] + b[2 * H + i])));
                S change = tanh(h[k * H + i] * a[3 * H + i] + b[3 * H + i]);
                cell[k * H + i] = cell[k * H + i] * forget + enter * change;
                h[k * H + i] = leave * tanh(cell[k * H + i]);
                signal[i] = h[k * H + i];
            }
        }
        S total = 2.0;
        for (long i = 0; i < H; i++) {
            guess[i] = signal[i] * extra[H + i] + extra[2 * H + i];
            total += exp(guess[i]);
        }
        total = log(total);
        for (long i = 0; i < H; i++) loss -= text[(t + 1) * H + i] * (guess[i] - total);
    }
    y[0] = loss / (double(C - 1) * double(H));
}

// One observation; x: camera (rotation, centre, focal length, principal point, distortion), point, weight; c: where it was seen.
template <class S> void ba(const long *, const int *, const double *c, const S *x, S *y, S *) {
    S angle = sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
    S a = x[0] / angle, b = x[1] / angle, d = x[2] / angle, s = sin(angle), k = cos(angle);
    S p = x[11] - x[3], q = x[12] - x[4], r = x[13] - x[5];
    S t = (1.0 - k) * (a * p + b * q + d * r);
    S deep = r * k + (a * q - b * p) * s + d * t;
    S g = (p * k + (b * r - d * q) * s + a * t) / deep, h = (q * k + (d * p - a * r) * s + b * t) / deep;
    S far = g * g + h * h, f = x[6] * (1.0 + x[9] * far + x[10] * far * far);
    y[0] = x[14] * (f * g + x[7] - c[0]);
    y[1] = x[14] * (f * h + x[8] - c[1]);
}

// n: bones, vertices, points, whether places on triangles are active; at: bend[B], turn[B], parent[B], corners[C, 3];
// c: relative[B, 4, 4], inverse[B, 4, 4], base[V, 4], weight[V, B], side, points[C, 3]; x: theta[26], u[C, 2].
template <class S> void hand(const long *n, const int *at, const double *c, const S *x, S *y, S *w) {
    const long B = n[0], V = n[1], C = n[2];
    const int *bend = at, *turn = bend + B, *parent = turn + B, *corner = parent + B;
    const double *relative = c, *inverse = relative + 16 * B, *base = inverse + 16 * B, *weight = base + 4 * V, side = weight[V * B];
    const double *points = weight + V * B + 1;
    S *absolute = w, *bone = absolute + 16 * B, *place = bone + 12 * B;
    for (long b = 0; b < B; b++) {
        const double *r = relative + 16 * b;
        S local[16], cx = 1.0, sx = 0.0, cz = 1.0, sz = 0.0;
        if (bend[b] < 26) cx = cos(x[bend[b]]), sx = sin(x[bend[b]]);
        if (turn[b] < 26) cz = cos(x[turn[b]]), sz = sin(x[turn[b]]);
        for (int i = 0; i < 4; i++) {
            local[4 * i] = r[4 * i] * cz + r[4 * i + 1] * sz;
            local[4 * i + 1] = (r[4 * i + 1] * cz - r[4 * i] * sz) * cx + r[4 * i + 2] * sx;
            local[4 * i + 2] = (r[4 * i] * sz - r[4 * i + 1] * cz) * sx + r[4 * i + 2] * cx;
            local[4 * i + 3] = r[4 * i + 3];
        }
        S *to = absolute + 16 * b;
        const S *from = absolute + 16 * parent[b];
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                if (parent[b] < 0)
                    to[4 * i + j] = local[4 * i + j];
                else
                    to[4 * i + j] = from[4 * i] * local[j] + from[4 * i + 1] * local[4 + j] + from[4 * i + 2] * local[8 + j] + from[4 * i + 3] * local[12 + j];
            }
        const double *v = inverse + 16 * b;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 4; j++)
                bone[12 * b + 4 * i + j] = to[4 * i] * v[j] + to[4 * i + 1] * v[4 + j] + to[4 * i + 2] * v[8 + j] + to[4 * i + 3] * v[12 + j];
    }
    S size = sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), p = x[0] / size, q = x[1] / size, r = x[2] / size, s = sin(size), k = cos(size);
    S rotation[9] = {p * p + (1.0 - p * p) * k,       p * q * (1.0 - k) - r * s, p * r * (1.0 - k) + q * s, p * q * (1.0 - k) + r * s,
                     q * q + (1.0 - q * q) * k,       q * r * (1.0 - k) - p * s, p * r * (1.0 - k) - q * s, q * r * (1.0 - k) + p * s,
                     r * r + (1.0 - r * r) * k};
    for (long v = 0; v < V; v++) {
        S skin[3] = {0.0, 0.0, 0.0};
        for (long b = 0; b < B; b++) {
            const double much = weight[v * B + b];
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 4; j++) skin[i] += bone[12 * b + 4 * i + j] * (much * base[4 * v + j]);
        }
        skin[0] *= side;
        for (int i = 0; i < 3; i++) place[3 * v + i] = x[3 + i] + rotation[3 * i] * skin[0] + rotation[3 * i + 1] * skin[1] + rotation[3 * i + 2] * skin[2];
    }
    for (long t = 0; t < C; t++)
        for (int i = 0; i < 3; i++) {
            if (n[3])
                y[3 * t + i] = points[3 * t + i] - x[26 + 2 * t] * place[3 * corner[3 * t] + i] - x[27 + 2 * t] * place[3 * corner[3 * t + 1] + i] -
                               (1.0 - x[26 + 2 * t] - x[27 + 2 * t]) * place[3 * corner[3 * t + 2] + i];
            else
                y[3 * t + i] = points[3 * t + i] - place[3 * corner[3 * t] + i];
        }
}
