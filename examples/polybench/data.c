/* What the arrays of the kernels hold before a call: numbers from a hash, with what some kernels need of them. */
#include <stdint.h>

static uint64_t hash(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* In -1..1. */
static double number(uint64_t seed, uint64_t n) { return (double)(hash(seed * 1000003 + n) >> 11) / (1ll << 52) - 1; }

/* Rows by columns. `s`: symmetric, with a diagonal that outweighs each row. `p`: distances of 1 to 999. `d`: falls, as
 * correlations do. `0`: nothing. Anything else: in -1..1. */
void fill_f64(double *a, int64_t rows, int64_t columns, char kind, uint64_t seed) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const uint64_t low = i < j ? i : j, high = i < j ? j : i;
            double *x = &a[i * columns + j];
            switch (kind) {
            case 's': *x = i == j ? (double)rows : number(seed, high * columns + low); break;
            case 'p': *x = 1 + (double)(hash(seed + i * columns + j) % 999); break;
            case 'd': *x = 0.3 / (i * columns + j + 1); break;
            case '0': *x = 0; break;
            default: *x = number(seed, i * columns + j);
            }
        }
}

/* `0`: nothing. Anything else: one of 0 to 3. */
void fill_i32(int32_t *a, int64_t rows, int64_t columns, char kind, uint64_t seed) {
    for (int64_t i = 0; i < rows * columns; i++) a[i] = kind == '0' ? 0 : (int32_t)(hash(seed + i) % 4);
}
