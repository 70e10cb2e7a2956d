// y += a x, tuned as an OpenCL program: `lathe tune saxpy.cl 1048576`. Needs an OpenCL runtime and its headers.
// #atf::var::N $1
// #atf::tp name "WPT" range interval<int>(1, 256) constraint divides(N)
// #atf::tp name "LS"  range set(16, 32, 64, 128, 256) constraint divides(N / WPT)
// #atf::ocl::platform "Portable Computing Language"
// #atf::ocl::global_size N / WPT
// #atf::ocl::local_size LS
// #atf::compile_script "./compile.sh"
// #atf::run_script "./run.sh"
// #atf::cost_file "cost.txt"
// #atf::abort_condition evaluations(40)
__kernel void saxpy(float a, __global const float *x, __global float *y) {
  for (int i = 0; i < WPT; i++) {
    const int at = i * get_global_size(0) + get_global_id(0);
    y[at] += a * x[at];
  }
}
