// Derivatives of GradBench's evals by ADOL-C: each call records the program and interprets the record.
#include <adolc/adolc.h>
#include <algorithm>
#include <cmath>
#include <vector>

using std::cos, std::exp, std::log, std::sin, std::sqrt, std::tanh;
#include "programs.hpp"

template <class F> static void record(F f, const long *n, const int *at, const double *c, const double *x, long inputs, long results, long scratch, int bits = 0) {
    const size_t room = size_t(1) << (bits ? bits : inputs + scratch > 2000 ? 24 : 18);
    trace_on(1, 1, room, room, room, room, 1);
    {
        std::vector<adouble> a(inputs), w(scratch), y(results);
        for (long i = 0; i < inputs; i++) a[i] <<= x[i];
        f(n, at, c, a.data(), y.data(), w.data());
        double out;
        for (long i = 0; i < results; i++) y[i] >>= out;
    }
    trace_off();
}

// The gradient of the result `of` of so many.
#define GRADIENT(name)                                                                                                                              \
    extern "C" void name##_d(const long *n, const int *at, const double *c, const double *x, long inputs, long results, long of, long scratch, double *g) { \
        record(name<adouble>, n, at, c, x, inputs, results, scratch);                                                                               \
        std::vector<double> u(results, 0.0);                                                                                                        \
        u[of] = 1;                                                                                                                                  \
        reverse(1, results, inputs, 0, u.data(), g);                                                                                                \
    }
GRADIENT(llsq) GRADIENT(lse) GRADIENT(ode) GRADIENT(det) GRADIENT(gmm) GRADIENT(lstm)

extern "C" void kmeans_d(const long *n, const int *at, const double *c, const double *x, long inputs, long, long, long, double *g) {
    record(kmeans<adouble>, n, at, c, x, inputs, 1, 0);
    std::vector<double> ones(inputs, 1.0), diagonal(inputs), point(x, x + inputs);
    double one = 1;
    reverse(1, 1, inputs, 0, &one, g);
    hess_vec(1, inputs, point.data(), ones.data(), diagonal.data());
    for (long i = 0; i < inputs; i++) g[i] /= diagonal[i];
}

// Columns of the Jacobian: of theta, and along the two places on triangles together.
extern "C" void hand_d(const long *n, const int *at, const double *c, const double *x, long inputs, long results, long, long scratch, double *g) {
    record(hand<adouble>, n, at, c, x, inputs, results, scratch);
    const long first = n[3] ? 2 : 0, columns = first + 26;
    std::vector<double> y(results), point(x, x + inputs);
    double **along = myalloc2(inputs, columns), **by = myalloc2(results, columns);
    for (long i = 0; i < inputs; i++) std::fill(along[i], along[i] + columns, 0.0);
    for (long i = 0; i < 26; i++) along[i][first + i] = 1;
    for (long i = 26; i < inputs && first; i++) along[i][i % 2] = 1;
    fov_forward(1, results, inputs, columns, point.data(), along, y.data(), by);
    for (long i = 0; i < columns; i++)
        for (long j = 0; j < results; j++) g[i * results + j] = by[j][i];
    myfree2(along), myfree2(by);
}

// Each observation has the same record.
extern "C" void ba_d(const long *n, const int *at, const double *c, const double *x, long, long, long, long, double *g) {
    for (long q = 0; q < n[2]; q++) {
        double own[15], by[2][15], *rows[2] = {by[0], by[1]};
        std::copy_n(x + q % n[0] * 11, 11, own);
        std::copy_n(x + n[0] * 11 + q % n[1] * 3, 3, own + 11);
        own[14] = x[n[0] * 11 + n[1] * 3 + q];
        if (q == 0) record(ba<adouble>, n, at, c, own, 15, 2, 0, 16);
        jacobian(1, 2, 15, own, rows);
        std::copy_n(by[0], 30, g + 30 * q);
        g[30 * n[2] + q] = -2 * own[14];
    }
}
