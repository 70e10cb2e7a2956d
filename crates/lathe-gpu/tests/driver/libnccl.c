/* NCCL without devices, for tests: sums of floats, and bytes that are moved, in memory of the host, once a group of calls has
 * ended. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int rank, ranks; char *from, *to; size_t count; } Communicator;
static Communicator all[16];
static int open_group, called, asked, root;

int ncclGetVersion(int *v) { *v = 22703; return 0; }
const char *ncclGetErrorString(int e) { return "an error of the tests"; }
int ncclCommInitAll(Communicator **made, int n, const int *devices) {
    for (int k = 0; k < n; k++) { all[k].rank = k; all[k].ranks = n; made[k] = &all[k]; }
    return 0;
}
int ncclCommAbort(Communicator *c) { return 0; }
int ncclGroupStart(void) { if (open_group++) abort(); called = 0; return 0; }
static int ask(int what, const void *from, void *to, size_t count, Communicator *c) {
    if (!open_group) return 4;
    asked = what; c->from = (char *)from; c->to = to; c->count = count; called++;
    return 0;
}
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, Communicator *c, void *stream) {
    return from != to || type != 7 || op != 0 ? 4 : ask(0, from, to, count, c);
}
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, Communicator *c, void *stream) {
    return type != 7 || op != 0 ? 4 : ask(1, from, to, count, c);
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int of, Communicator *c, void *stream) {
    root = of;
    return type != 0 ? 4 : ask(2, from, to, count, c);
}
int ncclAllGather(const void *from, void *to, size_t count, int type, Communicator *c, void *stream) {
    return type != 0 ? 4 : ask(3, from, to, count, c);
}
int ncclGroupEnd(void) {
    if (--open_group) abort();
    int n = all[0].ranks;
    if (called != n) return 5;
    size_t count = all[0].count;
    for (size_t i = 0; asked == 0 && i < count; i++) {
        float s = 0;
        for (int k = 0; k < n; k++) s += ((float *)all[k].from)[i];
        for (int k = 0; k < n; k++) ((float *)all[k].to)[i] = s;
    }
    for (int k = 0; k < n; k++) {
        float *to = (float *)all[k].to;
        for (size_t i = 0; asked == 1 && i < count; i++) {
            to[i] = 0;
            for (int r = 0; r < n; r++) to[i] += ((float *)all[r].from)[k * count + i];
        }
        if (asked == 2 && k != root) memcpy(all[k].to, all[root].from, count);
        for (int r = 0; asked == 3 && r < n; r++) memmove(all[k].to + r * count, all[r].from, count);
    }
    return 0;
}
