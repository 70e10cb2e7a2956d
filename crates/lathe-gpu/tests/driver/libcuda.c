/* A driver of CUDA without devices, for tests: what it is given it does at once, in memory of the host, for kernels that it
 * knows by name. It counts its calls, and it ends the process where a call would wait for a kernel that does not end. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int number, stuck, lost; } Device;
typedef struct { Device *device; int stuck, capturing; long clock; } Stream;
typedef struct { Device *device; int stuck; long clock; } Event;

static Device devices[16];
static _Thread_local Device *current;
static struct { const char *name; long calls; } counts[64];

static void count(const char *name) {
    for (int n = 0; n < 64; n++) {
        if (!counts[n].name) counts[n].name = name;
        if (counts[n].name == name || !strcmp(counts[n].name, name)) { counts[n].calls++; return; }
    }
}

long fake_calls(const char *name) {
    for (int n = 0; n < 64 && counts[n].name; n++)
        if (!strcmp(counts[n].name, name)) return counts[n].calls;
    return 0;
}

#define CALL count(__func__)
/* What waits for all that a device was given. */
#define WAITS(d) do { CALL; if ((d) && (d)->stuck) { fprintf(stderr, "%s waits for ever\n", __func__); abort(); } } while (0)
#define LIVE(d) do { if ((d) && (d)->lost) return 700; } while (0)

int cuInit(unsigned flags) { CALL; for (int n = 0; n < 16; n++) devices[n].number = n; return 0; }
/* NVRTC asks for one, and takes what is too short for none. */
int cuGetExportTable(const void **table, const void *id) { static const uint64_t none[2] = { sizeof none }; *table = none; return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGetCount(int *n) { const char *e = getenv("FAKE_CUDA_DEVICES"); *n = e ? atoi(e) : 2; return 0; }
int cuDeviceGet(int *d, int n) { *d = n; return 0; }
int cuDeviceGetName(char *to, int bytes, int d) { snprintf(to, bytes, "Fake %d", d); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int d) { *bytes = 1 << 30; return 0; }
int cuDeviceGetAttribute(int *v, int which, int d) {
    *v = which == 75 ? 9 : which == 1 ? 1024 : which == 16 ? 132 : which == 97 ? 227 << 10 : which == 115;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = &devices[d]; return 0; }
int cuGetErrorString(int e, const char **text) {
    *text = e == 700 ? "an illegal memory access" : e == 209 ? "no kernel image is available" : "an error"; return 0;
}
int cuCtxSetCurrent(void *c) { CALL; current = c; return 0; }
int cuCtxGetCurrent(void **c) { *c = current; return 0; }
int cuModuleLoadData(void **m, const void *code) {
    CALL; LIVE(current); *m = malloc(1); return getenv("FAKE_CUDA_OTHER") ? 209 : 0;
}
int cuModuleGetFunction(void **f, void *m, const char *name) { *f = strdup(name); return 0; }
int cuFuncSetAttribute(void *f, int which, int v) { return 0; }
int cuModuleUnload(void *m) { WAITS(current); free(m); return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t bytes) { CALL; LIVE(current); *p = (uint64_t)malloc(bytes); return 0; }
int cuMemFree_v2(uint64_t p) { WAITS(current); free((void *)p); return 0; }
int cuMemAllocAsync(uint64_t *p, size_t bytes, void *s) { CALL; *p = (uint64_t)malloc(bytes); return 0; }
int cuMemFreeAsync(uint64_t p, Stream *s) { CALL; if (!s->stuck) free((void *)p); return 0; }
int cuMemsetD8Async(uint64_t p, unsigned char v, size_t bytes, Stream *s) {
    CALL; if (!s->stuck) memset((void *)p, v, bytes); return 0;
}
int cuMemHostAlloc(void **p, size_t bytes, unsigned flags) { WAITS(current); *p = aligned_alloc(4096, (bytes + 4095) & ~4095ul); return 0; }
int cuMemFreeHost(void *p) { WAITS(current); free(p); return 0; }
int cuMemAllocManaged(uint64_t *p, size_t bytes, unsigned flags) { CALL; *p = (uint64_t)aligned_alloc(4096, (bytes + 4095) & ~4095ul); return 0; }
int cuMemGetInfo_v2(size_t *available, size_t *all) { *available = *all = 1 << 30; return 0; }
int cuStreamCreate(Stream **s, unsigned flags) { CALL; *s = calloc(1, sizeof **s); (*s)->device = current; return 0; }
int cuStreamWaitEvent(Stream *s, Event *e, unsigned flags) { CALL; s->stuck |= e->stuck; return 0; }
int cuEventCreate(Event **e, unsigned flags) { CALL; *e = calloc(1, sizeof **e); (*e)->device = current; return 0; }
int cuEventRecord(Event *e, Stream *s) {
    CALL; LIVE(e->device);
    if (s && s->device != e->device) return 400;
    e->stuck = s ? s->stuck : 0;
    e->clock = s ? s->clock : 0;
    return 0;
}
int cuEventQuery(Event *e) { CALL; LIVE(e->device); return e->stuck ? 600 : 0; }
/* The clock of a stream goes on by a microsecond for each block. */
int cuEventElapsedTime(float *ms, Event *a, Event *b) { *ms = (b->clock - a->clock) * 1e-3f; return 0; }
static int copy(void *to, const void *from, size_t bytes, Stream *s) {
    LIVE(s->device);
    if (!s->stuck) memcpy(to, from, bytes);
    return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, Stream *s) { CALL; return copy((void *)to, from, bytes, s); }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, Stream *s) { CALL; return copy(to, (void *)from, bytes, s); }
int cuMemcpyPeerAsync(uint64_t to, void *a, uint64_t from, void *b, size_t bytes, Stream *s) {
    CALL; return copy((void *)to, (void *)from, bytes, s);
}
int cuDeviceCanAccessPeer(int *able, int a, int b) { *able = 1; return 0; }
int cuCtxEnablePeerAccess(void *c, unsigned flags) { return 0; }
int cuStreamBeginCapture_v2(Stream *s, int mode) { CALL; s->capturing = 1; return 0; }
int cuStreamEndCapture(Stream *s, void **graph) { CALL; s->capturing = 0; *graph = malloc(1); return 0; }
int cuGraphInstantiateWithFlags(void **run, void *graph, uint64_t flags) { CALL; *run = malloc(1); return 0; }
int cuGraphLaunch(void *run, Stream *s) { CALL; return 0; }
int cuGraphDestroy(void *graph) { free(graph); return 0; }
int cuGraphExecDestroy(void *run) { WAITS(current); free(run); return 0; }

int cuLaunchKernel(const char *name, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c,
                   unsigned shared, Stream *s, void **arguments, void **extra) {
    static long *calls;
    if (!calls) {
        CALL;
        for (int n = 0; n < 64; n++) if (counts[n].name && !strcmp(counts[n].name, __func__)) calls = &counts[n].calls;
    } else ++*calls;
    LIVE(s->device);
    if (s->stuck || s->capturing || !strcmp(name, "empty")) return 0;
    s->clock += x;
    /* A grid of so many blocks does not end, or accesses what it may not. */
    const char *endless = getenv("FAKE_CUDA_ENDLESS"), *wild = getenv("FAKE_CUDA_WILD");
    if (endless && x == (unsigned)atoi(endless)) name = "endless";
    if (wild && x == (unsigned)atoi(wild)) name = "wild";
    if (!strcmp(name, "add")) { /* add(float *y, const float *x, int n) */
        float *to = *(float **)arguments[0], *from = *(float **)arguments[1];
        for (int i = 0; i < *(int *)arguments[2]; i++) to[i] += from[i];
    } else if (!strcmp(name, "combine_sum")) { /* (float *to, const float *from, unsigned long n) */
        float *to = *(float **)arguments[0], *from = *(float **)arguments[1];
        for (unsigned long i = 0; i < *(unsigned long *)arguments[2]; i++) to[i] += from[i];
    } else if (!strcmp(name, "endless")) {
        s->stuck = s->device->stuck = 1;
    } else if (!strcmp(name, "wild")) {
        s->device->lost = 1;
    } else {
        return 500;
    }
    return 0;
}
