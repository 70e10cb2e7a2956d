/* The programs of learning.lathe in plain C. Sizes are macros. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef KERNEL_k_means
void k_means(const float points[restrict N][D], float centres[restrict K][D], int32_t label[restrict N]) {
    float total[K][D], count[K];
    memset(total, 0, sizeof total);
    memset(count, 0, sizeof count);
    for (int n = 0; n < N; n++) {
        float least = INFINITY;
        for (int k = 0; k < K; k++) {
            float far = 0;
            for (int j = 0; j < D; j++) far += (points[n][j] - centres[k][j]) * (points[n][j] - centres[k][j]);
            if (far < least) {
                least = far;
                label[n] = k;
            }
        }
        count[label[n]] += 1;
        for (int j = 0; j < D; j++) total[label[n]][j] += points[n][j];
    }
    for (int k = 0; k < K; k++)
        for (int j = 0; j < D; j++)
            if (count[k] > 0) centres[k][j] = total[k][j] / count[k];
}
#endif

#ifdef KERNEL_lstm_cell
static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

void lstm_cell(const float x[restrict I], const float h[restrict H], const float c[restrict H],
    const float w[restrict 4][H][I], const float u[restrict 4][H][H], const float b[restrict 4][H],
    float hidden[restrict H], float cell[restrict H]) {
    for (int j = 0; j < H; j++) {
        float gate[4];
        for (int g = 0; g < 4; g++) {
            gate[g] = b[g][j];
            for (int i = 0; i < I; i++) gate[g] += w[g][j][i] * x[i];
            for (int k = 0; k < H; k++) gate[g] += u[g][j][k] * h[k];
        }
        cell[j] = sigmoid(gate[1]) * c[j] + sigmoid(gate[0]) * tanhf(gate[3]);
        hidden[j] = sigmoid(gate[2]) * tanhf(cell[j]);
    }
}
#endif

#ifdef KERNEL_decode
enum { DIM = H * E };

static void product(int rows, int columns, const float *restrict a, const float *restrict x, float *restrict y) {
    for (int i = 0; i < rows; i++) {
        float sum = 0;
        for (int j = 0; j < columns; j++) sum += a[(long)i * columns + j] * x[j];
        y[i] = sum;
    }
}

static void normalized(const float *restrict x, float *restrict y) {
    float squares = 0;
    for (int i = 0; i < DIM; i++) squares += x[i] * x[i];
    for (int i = 0; i < DIM; i++) y[i] = x[i] / sqrtf(squares / DIM + 0.00001f);
}

void decode(const float x[restrict DIM], float key[restrict T][H][E], float value[restrict T][H][E], const float *wq,
    const float *wk, const float *wv, const float *wo, const float *up, const float *gate, const float *down,
    float y[restrict DIM]) {
    static float n[DIM], q[H][E], score[T], seen[H][E], mid[DIM], wide[F], open[F];
    normalized(x, n);
    product(DIM, DIM, wq, n, q[0]);
    product(DIM, DIM, wk, n, key[T - 1][0]);
    product(DIM, DIM, wv, n, value[T - 1][0]);
    for (int h = 0; h < H; h++) {
        float most = -INFINITY, all = 0;
        for (int t = 0; t < T; t++) {
            float sum = 0;
            for (int e = 0; e < E; e++) sum += q[h][e] * key[t][h][e];
            score[t] = sum / sqrtf(E);
            most = fmaxf(most, score[t]);
        }
        for (int e = 0; e < E; e++) seen[h][e] = 0;
        for (int t = 0; t < T; t++) {
            const float weight = expf(score[t] - most);
            all += weight;
            for (int e = 0; e < E; e++) seen[h][e] += weight * value[t][h][e];
        }
        for (int e = 0; e < E; e++) seen[h][e] /= all;
    }
    product(DIM, DIM, wo, seen[0], mid);
    for (int i = 0; i < DIM; i++) mid[i] += x[i];
    normalized(mid, n);
    product(F, DIM, up, n, wide);
    product(F, DIM, gate, n, open);
    for (int f = 0; f < F; f++) wide[f] *= open[f] > 0 ? open[f] : 0;
    product(DIM, F, down, wide, y);
    for (int i = 0; i < DIM; i++) y[i] += mid[i];
}
#endif
