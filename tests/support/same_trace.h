// Equality of traces, to the last member.
#pragma once

#include "traces/model/trace.h"

namespace corun {

bool same(const Trace& a, const Trace& b);

}  // namespace corun
