// What a driver has and no calibration calls.  Without cuda.h, so that the names are the library's own.
extern "C" {
#define CORUN_UNCALLED(name) \
  int name() { return 801; } /* CUDA_ERROR_NOT_SUPPORTED */
CORUN_UNCALLED(cuDeviceGetDevResource)
CORUN_UNCALLED(cuDevSmResourceSplitByCount)
CORUN_UNCALLED(cuDevResourceGenerateDesc)
CORUN_UNCALLED(cuGreenCtxCreate)
CORUN_UNCALLED(cuGreenCtxDestroy)
CORUN_UNCALLED(cuGreenCtxStreamCreate)
CORUN_UNCALLED(cuStreamWriteValue32_v2)
CORUN_UNCALLED(cuStreamBatchMemOp_v2)
CORUN_UNCALLED(cuStreamWaitEvent)
CORUN_UNCALLED(cuMemcpyDtoDAsync_v2)
CORUN_UNCALLED(cuMemAddressReserve)
CORUN_UNCALLED(cuMemAddressFree)
CORUN_UNCALLED(cuMemCreate)
CORUN_UNCALLED(cuMemRelease)
CORUN_UNCALLED(cuMemMap)
CORUN_UNCALLED(cuMemUnmap)
CORUN_UNCALLED(cuMemSetAccess)
CORUN_UNCALLED(cuMemGetAllocationGranularity)
}
