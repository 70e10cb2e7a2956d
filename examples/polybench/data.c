/* What the arrays of the kernels hold before a call: numbers from a hash, with what some kernels need of them. */
#include <stdint.h>

static uint64_t hash(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* In -1..1. */
static double number(uint64_t seed, uint64_t n) { return (double)(hash(seed * 1000003 + n) >> 11) / (1ll << 52) - 1; }

/* An element of rows by columns. `s`: symmetric, with a diagonal that outweighs each row. `p`: distances of 1 to 999. `d`:
 * falls, as correlations do. `u`: in 0.5..1.5. `0`: nothing. Anything else: in -1..1. */
static double element(int64_t rows, int64_t columns, int64_t i, int64_t j, char kind, uint64_t seed) {
    const uint64_t low = i < j ? i : j, high = i < j ? j : i;
    switch (kind) {
    case 's': return i == j ? (double)rows : number(seed, high * columns + low);
    case 'p': return 1 + (double)(hash(seed + i * columns + j) % 999);
    case 'd': return 0.3 / (i * columns + j + 1);
    case 'u': return 1 + 0.5 * number(seed, i * columns + j);
    case '0': return 0;
    default: return number(seed, i * columns + j);
    }
}

void fill_f64(double *a, int64_t rows, int64_t columns, char kind, uint64_t seed, int64_t most) {
    (void)most;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) a[i * columns + j] = element(rows, columns, i, j, kind, seed);
}

void fill_f32(float *a, int64_t rows, int64_t columns, char kind, uint64_t seed, int64_t most) {
    (void)most;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) a[i * columns + j] = (float)element(rows, columns, i, j, kind, seed);
}

/* `0`: nothing. `i`: below `most`. Anything else: one of 0 to 3. */
void fill_i32(int32_t *a, int64_t rows, int64_t columns, char kind, uint64_t seed, int64_t most) {
    for (int64_t i = 0; i < rows * columns; i++)
        a[i] = kind == '0' ? 0 : (int32_t)(hash(seed + i) % (kind == 'i' ? (uint64_t)most : 4));
}

/* Where rows of about as many elements begin, `most` of them together. */
void fill_i64(int64_t *a, int64_t rows, int64_t columns, char kind, uint64_t seed, int64_t most) {
    (void)columns, (void)kind;
    const int64_t each = rows > 1 ? most / (rows - 1) : 0;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t more = i == 0 || i + 1 == rows ? 0 : (int64_t)(hash(seed + i) % (uint64_t)(each / 2 + 1));
        a[i] = i + 1 == rows ? most : i * each + more;
    }
}
