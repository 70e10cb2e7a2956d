/* The kernels of medley.lathe in plain C. Sizes are macros. */
#include <math.h>

#ifdef KERNEL_deriche
void deriche(const double *alpha_, double image[restrict W][H], double out[restrict W][H]) {
    static double forth[W][H], back[W][H];
    const double alpha = *alpha_, e = exp(-alpha);
    const double k = (1 - e) * (1 - e) / (1 + 2 * alpha * e - exp(2 * alpha));
    const double a2 = k * e * (alpha - 1), a3 = k * e * (alpha + 1), a4 = -k * exp(-2 * alpha);
    const double b1 = pow(2, -alpha), b2 = -exp(-2 * alpha);
    for (int i = 0; i < W; i++) {
        double last = 0, y1 = 0, y2 = 0;
        for (int j = 0; j < H; j++) {
            forth[i][j] = k * image[i][j] + a2 * last + b1 * y1 + b2 * y2;
            last = image[i][j];
            y2 = y1;
            y1 = forth[i][j];
        }
    }
    for (int i = 0; i < W; i++) {
        double x1 = 0, x2 = 0, y1 = 0, y2 = 0;
        for (int j = H - 1; j >= 0; j--) {
            back[i][j] = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2;
            x2 = x1;
            x1 = image[i][j];
            y2 = y1;
            y1 = back[i][j];
        }
    }
    for (int i = 0; i < W; i++)
        for (int j = 0; j < H; j++) out[i][j] = forth[i][j] + back[i][j];
    for (int j = 0; j < H; j++) {
        double last = 0, y1 = 0, y2 = 0;
        for (int i = 0; i < W; i++) {
            forth[i][j] = k * out[i][j] + a2 * last + b1 * y1 + b2 * y2;
            last = out[i][j];
            y2 = y1;
            y1 = forth[i][j];
        }
    }
    for (int j = 0; j < H; j++) {
        double x1 = 0, x2 = 0, y1 = 0, y2 = 0;
        for (int i = W - 1; i >= 0; i--) {
            back[i][j] = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2;
            x2 = x1;
            x1 = out[i][j];
            y2 = y1;
            y1 = back[i][j];
        }
    }
    for (int i = 0; i < W; i++)
        for (int j = 0; j < H; j++) out[i][j] = forth[i][j] + back[i][j];
}
#endif

#ifdef KERNEL_floyd_warshall
void floyd_warshall(double path[restrict N][N]) {
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                path[i][j] = path[i][j] < path[i][k] + path[k][j] ? path[i][j] : path[i][k] + path[k][j];
}
#endif

#ifdef KERNEL_nussinov
#define larger(a, b) ((a) > (b) ? (a) : (b))
void nussinov(int bases[restrict N], int table[restrict N][N]) {
    for (int i = N - 1; i >= 0; i--)
        for (int j = i + 1; j < N; j++) {
            table[i][j] = larger(table[i][j], table[i][j - 1]);
            table[i][j] = larger(table[i][j], table[i + 1][j]);
            if (i < j - 1)
                table[i][j] = larger(table[i][j], table[i + 1][j - 1] + (bases[i] + bases[j] == 3 ? 1 : 0));
            else
                table[i][j] = larger(table[i][j], table[i + 1][j - 1]);
            for (int k = i + 1; k < j; k++) table[i][j] = larger(table[i][j], table[i][k] + table[k + 1][j]);
        }
}
#endif
