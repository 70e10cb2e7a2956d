/* NCCL without devices, for tests: sums of floats in memory of the host, once a group of calls has ended. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int rank, ranks; float *at; size_t count; } Communicator;
static Communicator all[16];
static int open_group, called;

int ncclGetVersion(int *v) { *v = 22703; return 0; }
const char *ncclGetErrorString(int e) { return "an error of the tests"; }
int ncclCommInitAll(Communicator **made, int n, const int *devices) {
    for (int k = 0; k < n; k++) { all[k].rank = k; all[k].ranks = n; made[k] = &all[k]; }
    return 0;
}
int ncclCommAbort(Communicator *c) { return 0; }
int ncclGroupStart(void) { if (open_group++) abort(); called = 0; return 0; }
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, Communicator *c, void *stream) {
    if (!open_group || from != to || type != 7 || op != 0) return 4;
    c->at = to; c->count = count; called++;
    return 0;
}
int ncclGroupEnd(void) {
    if (--open_group) abort();
    if (called != all[0].ranks) return 5;
    for (size_t i = 0; i < all[0].count; i++) {
        float s = 0;
        for (int k = 0; k < called; k++) s += all[k].at[i];
        for (int k = 0; k < called; k++) all[k].at[i] = s;
    }
    return 0;
}
