// NVTX ranges for a program without a package that has them.  gcc -O2 -shared -fPIC -I/usr/local/cuda/include -o marks.so marks.c -ldl
#include <nvtx3/nvToolsExt.h>

void push(const char* name) { nvtxRangePushA(name); }
void pop(void) { nvtxRangePop(); }
