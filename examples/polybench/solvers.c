/* The kernels of solvers.lathe in plain C. Sizes are macros. */
#include <math.h>

#ifdef KERNEL_cholesky
void cholesky(double A[restrict N][N]) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) {
            for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[j][k];
            A[i][j] /= A[j][j];
        }
        for (int k = 0; k < i; k++) A[i][i] -= A[i][k] * A[i][k];
        A[i][i] = sqrt(A[i][i]);
    }
}
#endif

#ifdef KERNEL_durbin
void durbin(double r[restrict N], double y[restrict N]) {
    double z[N], alpha = -r[0], beta = 1;
    y[0] = -r[0];
    for (int k = 1; k < N; k++) {
        double total = 0;
        beta = (1 - alpha * alpha) * beta;
        for (int i = 0; i < k; i++) total += r[k - i - 1] * y[i];
        alpha = -(r[k] + total) / beta;
        for (int i = 0; i < k; i++) z[i] = y[i] + alpha * y[k - i - 1];
        for (int i = 0; i < k; i++) y[i] = z[i];
        y[k] = alpha;
    }
}
#endif

#ifdef KERNEL_gramschmidt
void gramschmidt(double A[restrict M][N], double R[restrict N][N], double Q[restrict M][N]) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) R[i][j] = 0;
    for (int k = 0; k < N; k++) {
        double nrm = 0;
        for (int i = 0; i < M; i++) nrm += A[i][k] * A[i][k];
        R[k][k] = sqrt(nrm);
        for (int i = 0; i < M; i++) Q[i][k] = A[i][k] / R[k][k];
        for (int j = k + 1; j < N; j++) {
            R[k][j] = 0;
            for (int i = 0; i < M; i++) R[k][j] += Q[i][k] * A[i][j];
            for (int i = 0; i < M; i++) A[i][j] = A[i][j] - Q[i][k] * R[k][j];
        }
    }
}
#endif

#ifdef KERNEL_lu
void lu(double A[restrict N][N]) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) {
            for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[k][j];
            A[i][j] /= A[j][j];
        }
        for (int j = i; j < N; j++)
            for (int k = 0; k < i; k++) A[i][j] -= A[i][k] * A[k][j];
    }
}
#endif

#ifdef KERNEL_ludcmp
void ludcmp(double A[restrict N][N], double b[restrict N], double x[restrict N], double y[restrict N]) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) {
            double w = A[i][j];
            for (int k = 0; k < j; k++) w -= A[i][k] * A[k][j];
            A[i][j] = w / A[j][j];
        }
        for (int j = i; j < N; j++) {
            double w = A[i][j];
            for (int k = 0; k < i; k++) w -= A[i][k] * A[k][j];
            A[i][j] = w;
        }
    }
    for (int i = 0; i < N; i++) {
        double w = b[i];
        for (int j = 0; j < i; j++) w -= A[i][j] * y[j];
        y[i] = w;
    }
    for (int i = N - 1; i >= 0; i--) {
        double w = y[i];
        for (int j = i + 1; j < N; j++) w -= A[i][j] * x[j];
        x[i] = w / A[i][i];
    }
}
#endif

#ifdef KERNEL_trisolv
void trisolv(double L[restrict N][N], double b[restrict N], double x[restrict N]) {
    for (int i = 0; i < N; i++) {
        x[i] = b[i];
        for (int j = 0; j < i; j++) x[i] -= L[i][j] * x[j];
        x[i] = x[i] / L[i][i];
    }
}
#endif
