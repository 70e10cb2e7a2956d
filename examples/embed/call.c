/* Calls the kernel `gemm` of ../gemm.lathe from C and checks its result.
 *
 * A kernel needs four functions of its surroundings: a loop whose iterations may run in any order, memory to take and
 * to give back, and a way to wait for an iteration that another thread runs. Built with -DLATHE_STANDALONE, the header has them ready; otherwise the program gives its
 * own, as below, where the loop is serial. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gemm.h"

#ifndef LATHE_STANDALONE
static int32_t serial(void *ctx, int64_t count, lathe_body body, void *env) {
    (void)ctx;
    return count > 0 ? body(env, 0, count) : 0;
}

static void *take(void *ctx, uint64_t bytes) {
    (void)ctx;
    /* Aligned to 64 bytes, and the size a multiple of that. */
    return bytes > SIZE_MAX - 64 ? 0 : aligned_alloc(64, (bytes / 64 + 1) * 64);
}

static void give_back(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

static int32_t wait_for_others(void *ctx) {
    (void)ctx;
    /* In a serial loop all earlier iterations have ended. */
    return 0;
}

static int32_t gemm_call(const lathe_array *A, const lathe_array *B, const lathe_array *C) {
    const lathe_runtime runtime = {LATHE_ABI_VERSION, 0, serial, take, give_back, wait_for_others, 0};
    const lathe_array arguments[] = {*A, *B, *C};
    return gemm(&runtime, arguments);
}
#endif

enum { M = 37, N = 45, K = 29 };

int main(void) {
    static float a[M][K], b[K][N], c[M][N];
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++) a[i][k] = (float)((i * 7 + k * 3) % 11 - 5);
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++) b[k][j] = (float)((k * 5 + j * 2) % 13 - 6);

    /* An array argument is a pointer with extents, strides (in elements) and the type of its elements. */
    const int64_t shape_a[] = {M, K}, shape_b[] = {K, N}, shape_c[] = {M, N};
    const int64_t strides_a[] = {K, 1}, strides_b[] = {N, 1}, strides_c[] = {N, 1};
    const lathe_array A = {a, shape_a, strides_a, LATHE_F32, 2, sizeof(float)};
    const lathe_array B = {b, shape_b, strides_b, LATHE_F32, 2, sizeof(float)};
    const lathe_array C = {c, shape_c, strides_c, LATHE_F32, 2, sizeof(float)};

    const int32_t status = gemm_call(&A, &B, &C);
    if (status != LATHE_OK) {
        fprintf(stderr, "gemm ends with status %d\n", (int)status);
        return 1;
    }
    /* Small integers: every product and sum is exact, so the result must be, too. */
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float want = 0;
            for (int k = 0; k < K; k++) want += a[i][k] * b[k][j];
            if (fabsf(c[i][j] - want) > 0) {
                fprintf(stderr, "C[%d, %d] is %g, not %g\n", i, j, (double)c[i][j], (double)want);
                return 1;
            }
        }

    /* A wrong shape is noticed by the kernel before anything is written. */
    const int64_t shape_wrong[] = {K + 1, N};
    const lathe_array wrong = {b, shape_wrong, strides_b, LATHE_F32, 2, sizeof(float)};
    if (gemm_call(&A, &wrong, &C) == LATHE_OK) {
        fprintf(stderr, "a wrong shape was taken\n");
        return 1;
    }
    printf("gemm: %d x %d x %d as expected\n", M, N, K);
    return 0;
}
