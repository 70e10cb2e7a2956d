"""The driver of CUDA devices; a program that needs one ends with what is missing."""

import ctypes


def opened():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        raise SystemExit(f"no CUDA driver: {e}; this needs an NVIDIA device and its driver (libcuda.so.1)") from None
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        raise SystemExit("no CUDA device: the driver (libcuda.so.1) finds none")
    return driver
