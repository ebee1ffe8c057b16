#!/usr/bin/env python3
"""Does `sim import kineto` read a recording in far less memory than the file has bytes?

Writes a recording of CORUN_KINETO_MB (300) MB as a training job's: for each kernel its launch call, the two ends of the
arrow between them and five operators, in steps of 1000 kernels.  Fails where the import takes more at its peak than the
share of 200 MB for 2 GB, beside what it takes for any file.  Usage: import_memory.py SIM
"""
import os
import resource
import subprocess
import sys
import tempfile

FOR_ANY_MB, FOR_2_GB_MB = 30, 200
KERNELS_A_STEP = 1000


def events(n, ts):
    """The n-th kernel and what leads to it; `ts` in microseconds."""
    operator = ('{"ph":"X","cat":"cpu_op","name":"aten::%s","pid":4242,"tid":4242,"ts":%d.125,"dur":%d.250,"args":{'
                '"External id":%d,"Record function id":0,"Concrete Inputs":["","","1","False"],"Input type":["float","float",'
                '"Scalar",""],"Input Dims":[[32,2048,14,14],[1000,2048],[],[]],"Input Strides":[[401408,196,14,1],[2048,1],'
                '[],[]],"Ev Idx":%d}},\n')
    text = "".join(operator % (name, ts + i, 60 - i, 5 * n + i, 5 * n + i)
                   for i, name in enumerate(["linear", "addmm", "to", "_to_copy", "copy_"]))
    text += ('{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":4242,"tid":4242,"ts":%d.500,"dur":4.250,'
             '"args":{"External id":%d,"cbid":211,"correlation":%d}},\n' % (ts + 10, n, n + 1))
    text += ('{"ph":"s","id":%d,"pid":4242,"tid":4242,"ts":%d.500,"cat":"ac2g","name":"ac2g"},\n' % (n + 1, ts + 10))
    text += ('{"ph":"X","cat":"kernel","name":"void at::native::kernel_%d<float>(int, float*)","pid":0,"tid":7,"ts":%d.000,'
             '"dur":40.125,"args":{"External id":%d,"queued":0,"device":0,"context":1,"stream":7,"correlation":%d,'
             '"registers per thread":122,"shared memory":12544,"blocks per SM":1.484848,"warps per SM":5.939394,'
             '"grid":[196,1,1],"block":[128,1,1],"est. achieved occupancy %%":9}},\n' % (n % 200, ts + 20, n, n + 1))
    return text + ('{"ph":"f","id":%d,"pid":0,"tid":7,"ts":%d.000,"cat":"ac2g","name":"ac2g","bp":"e"},\n' % (n + 1, ts + 20))


def write(file, megabytes):
    with open(file, "w") as out:
        size = out.write('{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H200","numSms":132}],"traceEvents":[\n')
        n = 0
        while size < megabytes * 1e6:
            size += out.write('{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":4242,"tid":4242,"ts":%d,'
                              '"dur":%d,"args":{}},\n' % (n // KERNELS_A_STEP, 70 * n, 70 * KERNELS_A_STEP - 1))
            size += out.write("".join(events(n + i, 70 * (n + i)) for i in range(KERNELS_A_STEP)))
            n += KERNELS_A_STEP
        out.write('{"ph":"i","name":"end","ts":%d}]}\n' % (70 * n))
    return n


def main():
    megabytes = int(os.environ.get("CORUN_KINETO_MB", "300"))
    with tempfile.TemporaryDirectory() as folder:
        recording = os.path.join(folder, "recording.json")
        kernels = write(recording, megabytes)
        subprocess.run([sys.argv[1], "import", "kineto", recording, "-o", os.path.join(folder, "trace.json")], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    print(f"{megabytes} MB with {kernels} kernels: {peak:.0f} MB at the peak")
    most = FOR_ANY_MB + (FOR_2_GB_MB - FOR_ANY_MB) * megabytes / 2000
    return 0 if peak <= most else f"expected at most {most:.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
