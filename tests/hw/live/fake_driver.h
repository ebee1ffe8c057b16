// The fake driver's queues, for its memory.
#pragma once

#include <cuda.h>

#include <functional>

void enqueue(CUstream stream, std::function<void()> what);
void finish(CUstream stream);
void finish_all();
