#!/bin/sh
exec cc -O2 -o host host.c -lOpenCL
