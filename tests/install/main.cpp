// A program that uses the installed libraries: the STP of a trace's clients under a policy.
#include <cstdio>

#include "sim/run/run.h"
#include "traces/json/trace_json.h"

int main(int, char** arguments) {
  const corun::Trace trace = corun::read_trace(arguments[1]);
  std::printf("%.3f\n", corun::sim::run(trace, corun::read_gpu(trace.gpu), {{.policy = arguments[2]}}).stp);
}
