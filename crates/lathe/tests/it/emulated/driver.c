/* Runs one kernel on arguments from standard input and writes its status and the arguments' bytes to standard output.
 * Built with `-include kernel.h -DKERNEL=symbol`. An argument is written as its descriptor: type, rank, bytes of an
 * element, extents, strides, number of bytes, and these bytes; all numbers as signed 64-bit integers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, RANK = 16 };

static int64_t number(void) {
    int64_t value;
    if (fread(&value, sizeof value, 1, stdin) != 1) exit(90);
    return value;
}

int main(void) {
    static lathe_array args[MOST];
    static int64_t shapes[MOST][RANK], strides[MOST][RANK], bytes[MOST];
    const int64_t count = number();
    if (count > MOST) return 91;
    for (int64_t k = 0; k < count; k++) {
        lathe_array *a = &args[k];
        a->dtype = (uint32_t)number();
        a->rank = (uint32_t)number();
        a->elem_bytes = (uint64_t)number();
        if (a->rank > RANK) return 91;
        for (uint32_t d = 0; d < a->rank; d++) shapes[k][d] = number();
        for (uint32_t d = 0; d < a->rank; d++) strides[k][d] = number();
        a->shape = shapes[k];
        a->strides = strides[k];
        bytes[k] = number();
        a->data = aligned_alloc(64, (size_t)(bytes[k] / 64 + 1) * 64);
        if (!a->data || fread(a->data, 1, (size_t)bytes[k], stdin) != (size_t)bytes[k]) return 92;
    }
    const lathe_runtime runtime = lathe_default_runtime();
    const int64_t status = KERNEL(&runtime, args);
    fwrite(&status, sizeof status, 1, stdout);
    for (int64_t k = 0; k < count; k++) fwrite(args[k].data, 1, (size_t)bytes[k], stdout);
    return fflush(stdout) ? 93 : 0;
}
