// Builds the kernel of saxpy.cl, runs it for the numbers of threads that the environment names, checks the result, and
// writes the nanoseconds of the fastest of 20 runs, by the device's own clock, to cost.txt.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                       \
  do {                                                                  \
    cl_int e = (call);                                                  \
    if (e) return fprintf(stderr, "%s: error %d\n", #call, (int)e), 1;  \
  } while (0)

int main(int argc, char **argv) {
  const size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  const char *wanted = getenv("LATHE_PLATFORM"), *global = getenv("LATHE_GLOBAL_SIZE"), *local = getenv("LATHE_LOCAL_SIZE");
  if (!n || !wanted || !global || !local) return fprintf(stderr, "run by `lathe tune saxpy.cl N`\n"), 1;
  cl_platform_id all[16], platform = NULL;
  cl_uint count = 0;
  TRY(clGetPlatformIDs(16, all, &count));
  for (cl_uint i = 0; i < count && i < 16; i++) {
    char name[256] = "";
    TRY(clGetPlatformInfo(all[i], CL_PLATFORM_NAME, sizeof name, name, NULL));
    if (!strcmp(name, wanted)) platform = all[i];
  }
  if (!platform) return fprintf(stderr, "there is no platform `%s`\n", wanted), 1;
  cl_device_id device;
  TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  cl_int e;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &e);
  TRY(e);
  cl_command_queue queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &e);
  TRY(e);
  static char text[1 << 16];
  FILE *source = fopen("saxpy.cl", "r");
  if (!source) return perror("saxpy.cl"), 1;
  text[fread(text, 1, sizeof text - 1, source)] = 0;
  fclose(source);
  const char *lines = text;
  cl_program program = clCreateProgramWithSource(context, 1, &lines, NULL, &e);
  TRY(e);
  TRY(clBuildProgram(program, 1, &device, "", NULL, NULL));
  cl_kernel kernel = clCreateKernel(program, "saxpy", &e);
  TRY(e);
  float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y), a = 2;
  if (!x || !y) return fprintf(stderr, "no memory for %zu elements\n", n), 1;
  for (size_t i = 0; i < n; i++) x[i] = (float)(i % 7), y[i] = 1;
  cl_mem dx = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, n * sizeof *x, x, &e);
  TRY(e);
  cl_mem dy = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, n * sizeof *y, y, &e);
  TRY(e);
  TRY(clSetKernelArg(kernel, 0, sizeof a, &a));
  TRY(clSetKernelArg(kernel, 1, sizeof dx, &dx));
  TRY(clSetKernelArg(kernel, 2, sizeof dy, &dy));
  const size_t threads = strtoull(global, NULL, 10), group = strtoull(local, NULL, 10);
  cl_ulong best = (cl_ulong)-1;
  for (int run = 0; run < 20; run++) {
    cl_event done;
    cl_ulong start, end;
    TRY(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &threads, &group, 0, NULL, &done));
    TRY(clWaitForEvents(1, &done));
    TRY(clGetEventProfilingInfo(done, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL));
    TRY(clGetEventProfilingInfo(done, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
    if (end - start < best) best = end - start;
    clReleaseEvent(done);
  }
  TRY(clEnqueueReadBuffer(queue, dy, CL_TRUE, 0, n * sizeof *y, y, 0, NULL, NULL));
  for (size_t i = 0; i < n; i++)
    if (y[i] != 1 + 20 * a * x[i]) return fprintf(stderr, "y[%zu] is %g\n", i, (double)y[i]), 1;
  FILE *cost = fopen("cost.txt", "w");
  if (!cost) return perror("cost.txt"), 1;
  fprintf(cost, "%llu\n", (unsigned long long)best);
  return fclose(cost) != 0;
}
