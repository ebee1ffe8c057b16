#!/usr/bin/env python3
"""How many SMs a program under `sim serve --policy=tpc-mask:split=even` has: those on which blocks of a kernel ran.  parts.py NAME SECONDS; parts.sh starts three."""
import sys, time, cupy
k = cupy.RawKernel(r'''extern "C" __global__ void who(unsigned* seen) { unsigned s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); long long t = clock64(); while (clock64() - t < 20000) {} if (threadIdx.x == 0) atomicAdd(seen + s, 1); }''', 'who')
end = time.time() + float(sys.argv[2])
while time.time() < end:
    seen = cupy.zeros(256, dtype=cupy.uint32)
    k((3000,), (256,), (seen,))
    cupy.cuda.Device().synchronize()
    on = [int(i) for i in cupy.nonzero(seen)[0].get()]
    print(sys.argv[1], len(on), on[:3], on[-3:], flush=True)
    time.sleep(1.5)
