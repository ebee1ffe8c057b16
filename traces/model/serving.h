// The program of a server: those of its steps one behind the other, of which a request is one.
#pragma once

#include "traces/model/trace.h"

namespace corun {

/// Gives each client that serves sequences a program made of its steps', and streams for it.  Throws InputError for
/// one without a prefill or without a decode.
void make_servers(Trace& trace);

}  // namespace corun
