/* Calls the kernel `k` with arrays of 64-bit integers from standard input, and prints its status and the arrays. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    void *data;
    const int64_t *shape;
    const int64_t *strides;
    uint32_t dtype;
    uint32_t rank;
    uint64_t elem_bytes;
} lathe_array;

typedef int32_t (*lathe_body)(void *env, int64_t begin, int64_t end);

typedef struct {
    uint64_t version;
    void *ctx;
    int32_t (*parallel_for)(void *ctx, int64_t count, lathe_body body, void *env);
    void *(*alloc)(void *ctx, uint64_t bytes);
    void (*free)(void *ctx, void *memory);
    int32_t (*wait)(void *ctx);
} lathe_runtime;

int32_t k(const lathe_runtime *rt, const lathe_array *args);

static int32_t serial(void *ctx, int64_t count, lathe_body body, void *env) {
    (void)ctx;
    return count > 0 ? body(env, 0, count) : 0;
}

static void *take(void *ctx, uint64_t bytes) {
    (void)ctx;
    return bytes > (1 << 30) ? 0 : aligned_alloc(64, (bytes / 64 + 1) * 64);
}

static void give_back(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

static int32_t wait_for_others(void *ctx) {
    (void)ctx;
    return 0;
}

static int64_t number(void) {
    int64_t v = 0;
    if (scanf("%" SCNd64, &v) != 1) exit(3);
    return v;
}

int main(void) {
    enum { MOST = 16 };
    const int64_t count = number();
    if (count > MOST) return 3;
    static lathe_array args[MOST];
    static int64_t shapes[MOST], lengths[MOST];
    static const int64_t one = 1;
    for (int64_t n = 0; n < count; n++) {
        args[n].dtype = (uint32_t)number();
        args[n].rank = (uint32_t)number();
        lengths[n] = args[n].rank == 0 ? 1 : (shapes[n] = number());
        args[n].shape = &shapes[n];
        args[n].strides = &one;
        args[n].elem_bytes = 8;
        int64_t *data = malloc((size_t)lengths[n] * 8);
        for (int64_t i = 0; i < lengths[n]; i++) data[i] = number();
        args[n].data = data;
    }
    const lathe_runtime runtime = {VERSION, 0, serial, take, give_back, wait_for_others};
    printf("%" PRId32 "\n", k(&runtime, args));
    for (int64_t n = 0; n < count; n++) {
        const int64_t *data = args[n].data;
        for (int64_t i = 0; i < lengths[n]; i++) printf("%" PRId64 " ", data[i]);
        printf("\n");
        free(args[n].data);
    }
    return 0;
}
