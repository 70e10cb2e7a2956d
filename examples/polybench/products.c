/* The kernels of products.lathe in plain C. Sizes are macros. */

#ifdef KERNEL_two_mm
void two_mm(const double *alpha, const double *beta, double A[restrict NI][NK], double B[restrict NK][NJ],
    double C[restrict NJ][NL], double D[restrict NI][NL]) {
    static double tmp[NI][NJ];
    for (int i = 0; i < NI; i++)
        for (int j = 0; j < NJ; j++) {
            tmp[i][j] = 0;
            for (int k = 0; k < NK; k++) tmp[i][j] += *alpha * A[i][k] * B[k][j];
        }
    for (int i = 0; i < NI; i++)
        for (int l = 0; l < NL; l++) {
            D[i][l] *= *beta;
            for (int j = 0; j < NJ; j++) D[i][l] += tmp[i][j] * C[j][l];
        }
}
#endif

#ifdef KERNEL_three_mm
void three_mm(double A[restrict NI][NK], double B[restrict NK][NJ], double C[restrict NJ][NM],
    double D[restrict NM][NL], double G[restrict NI][NL]) {
    static double E[NI][NJ], F[NJ][NL];
    for (int i = 0; i < NI; i++)
        for (int j = 0; j < NJ; j++) {
            E[i][j] = 0;
            for (int k = 0; k < NK; k++) E[i][j] += A[i][k] * B[k][j];
        }
    for (int j = 0; j < NJ; j++)
        for (int l = 0; l < NL; l++) {
            F[j][l] = 0;
            for (int m = 0; m < NM; m++) F[j][l] += C[j][m] * D[m][l];
        }
    for (int i = 0; i < NI; i++)
        for (int l = 0; l < NL; l++) {
            G[i][l] = 0;
            for (int j = 0; j < NJ; j++) G[i][l] += E[i][j] * F[j][l];
        }
}
#endif

#ifdef KERNEL_atax
void atax(double A[restrict M][N], double x[restrict N], double y[restrict N]) {
    for (int j = 0; j < N; j++) y[j] = 0;
    for (int i = 0; i < M; i++) {
        double tmp = 0;
        for (int j = 0; j < N; j++) tmp += A[i][j] * x[j];
        for (int j = 0; j < N; j++) y[j] += A[i][j] * tmp;
    }
}
#endif

#ifdef KERNEL_bicg
void bicg(double A[restrict N][M], double p[restrict M], double r[restrict N], double s[restrict M],
    double q[restrict N]) {
    for (int j = 0; j < M; j++) s[j] = 0;
    for (int i = 0; i < N; i++) {
        q[i] = 0;
        for (int j = 0; j < M; j++) {
            s[j] += r[i] * A[i][j];
            q[i] += A[i][j] * p[j];
        }
    }
}
#endif

#ifdef KERNEL_doitgen
void doitgen(double A[restrict NR][NQ][NP], double C4[restrict NP][NP]) {
    double row[NP];
    for (int r = 0; r < NR; r++)
        for (int q = 0; q < NQ; q++) {
            for (int p = 0; p < NP; p++) {
                row[p] = 0;
                for (int s = 0; s < NP; s++) row[p] += A[r][q][s] * C4[s][p];
            }
            for (int p = 0; p < NP; p++) A[r][q][p] = row[p];
        }
}
#endif

#ifdef KERNEL_mvt
void mvt(double A[restrict N][N], double x1[restrict N], double x2[restrict N], double y1[restrict N],
    double y2[restrict N]) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) x1[i] += A[i][j] * y1[j];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) x2[i] += A[j][i] * y2[j];
}
#endif
