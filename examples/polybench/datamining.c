/* The kernels of datamining.lathe in plain C. Sizes are macros. */
#include <math.h>

#ifdef KERNEL_covariance
void covariance(double data[restrict N][M], double cov[restrict M][M]) {
    double mean[M];
    for (int j = 0; j < M; j++) {
        mean[j] = 0;
        for (int i = 0; i < N; i++) mean[j] += data[i][j];
        mean[j] /= N;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) data[i][j] -= mean[j];
    for (int i = 0; i < M; i++)
        for (int j = i; j < M; j++) {
            cov[i][j] = 0;
            for (int k = 0; k < N; k++) cov[i][j] += data[k][i] * data[k][j];
            cov[i][j] /= N - 1.0;
            cov[j][i] = cov[i][j];
        }
}
#endif

#ifdef KERNEL_correlation
void correlation(double data[restrict N][M], double corr[restrict M][M]) {
    double mean[M], deviation[M];
    for (int j = 0; j < M; j++) {
        mean[j] = 0;
        for (int i = 0; i < N; i++) mean[j] += data[i][j];
        mean[j] /= N;
    }
    for (int j = 0; j < M; j++) {
        deviation[j] = 0;
        for (int i = 0; i < N; i++) deviation[j] += (data[i][j] - mean[j]) * (data[i][j] - mean[j]);
        deviation[j] = sqrt(deviation[j] / N);
        deviation[j] = deviation[j] <= 0.1 ? 1.0 : deviation[j];
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) data[i][j] = (data[i][j] - mean[j]) / (sqrt((double)N) * deviation[j]);
    for (int i = 0; i < M; i++) {
        corr[i][i] = 1;
        for (int j = i + 1; j < M; j++) {
            corr[i][j] = 0;
            for (int k = 0; k < N; k++) corr[i][j] += data[k][i] * data[k][j];
            corr[j][i] = corr[i][j];
        }
    }
}
#endif
