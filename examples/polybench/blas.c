/* The kernels of blas.lathe in plain C. Sizes are macros. */

#ifdef KERNEL_gemm
void gemm(const double *alpha, const double *beta, double A[restrict NI][NK], double B[restrict NK][NJ],
    double C[restrict NI][NJ]) {
    for (int i = 0; i < NI; i++) {
        for (int j = 0; j < NJ; j++) C[i][j] *= *beta;
        for (int k = 0; k < NK; k++)
            for (int j = 0; j < NJ; j++) C[i][j] += *alpha * A[i][k] * B[k][j];
    }
}
#endif

#ifdef KERNEL_gemver
void gemver(const double *alpha, const double *beta, double A[restrict N][N], double u1[restrict N],
    double v1[restrict N], double u2[restrict N], double v2[restrict N], double w[restrict N], double x[restrict N],
    double y[restrict N], double z[restrict N]) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) A[i][j] = A[i][j] + u1[i] * v1[j] + u2[i] * v2[j];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) x[i] += *beta * A[j][i] * y[j];
    for (int i = 0; i < N; i++) x[i] = x[i] + z[i];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) w[i] += *alpha * A[i][j] * x[j];
}
#endif

#ifdef KERNEL_gesummv
void gesummv(const double *alpha, const double *beta, double A[restrict N][N], double B[restrict N][N],
    double x[restrict N], double y[restrict N]) {
    for (int i = 0; i < N; i++) {
        double tmp = 0, sum = 0;
        for (int j = 0; j < N; j++) {
            tmp += A[i][j] * x[j];
            sum += B[i][j] * x[j];
        }
        y[i] = *alpha * tmp + *beta * sum;
    }
}
#endif

#ifdef KERNEL_symm
void symm(const double *alpha, const double *beta, double A[restrict M][M], double B[restrict M][N],
    double C[restrict M][N]) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double t = 0;
            for (int k = 0; k < i; k++) {
                C[k][j] += *alpha * B[i][j] * A[i][k];
                t += B[k][j] * A[i][k];
            }
            C[i][j] = *beta * C[i][j] + *alpha * B[i][j] * A[i][i] + *alpha * t;
        }
}
#endif

#ifdef KERNEL_syrk
void syrk(const double *alpha, const double *beta, double A[restrict N][M], double C[restrict N][N]) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j <= i; j++) C[i][j] *= *beta;
        for (int k = 0; k < M; k++)
            for (int j = 0; j <= i; j++) C[i][j] += *alpha * A[i][k] * A[j][k];
    }
}
#endif

#ifdef KERNEL_syr2k
void syr2k(const double *alpha, const double *beta, double A[restrict N][M], double B[restrict N][M],
    double C[restrict N][N]) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j <= i; j++) C[i][j] *= *beta;
        for (int k = 0; k < M; k++)
            for (int j = 0; j <= i; j++) C[i][j] += A[j][k] * *alpha * B[i][k] + B[j][k] * *alpha * A[i][k];
    }
}
#endif

#ifdef KERNEL_trmm
void trmm(const double *alpha, double A[restrict M][M], double B[restrict M][N]) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            for (int k = i + 1; k < M; k++) B[i][j] += A[k][i] * B[k][j];
            B[i][j] = *alpha * B[i][j];
        }
}
#endif
