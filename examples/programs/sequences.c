/* The programs of sequences.lathe in plain C. Sizes are macros. */
#include <stdint.h>

#ifdef KERNEL_smith_waterman
void smith_waterman(const int32_t a[restrict M], const int32_t b[restrict N], int32_t table[restrict M + 1][N + 1],
    int32_t *restrict best) {
    *best = 0;
    for (int j = 0; j <= N; j++) table[0][j] = 0;
    for (int i = 1; i <= M; i++) {
        table[i][0] = 0;
        for (int j = 1; j <= N; j++) {
            int32_t most = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 3 : -3);
            if (table[i - 1][j] - 2 > most) most = table[i - 1][j] - 2;
            if (table[i][j - 1] - 2 > most) most = table[i][j - 1] - 2;
            table[i][j] = most > 0 ? most : 0;
            if (table[i][j] > *best) *best = table[i][j];
        }
    }
}
#endif
