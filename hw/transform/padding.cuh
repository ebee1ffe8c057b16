// A padded launch: one grid in which some SMs run the blocks of one kernel and the others run blocks of
// another, each a body as hw/transform/padding.cpp writes it.  Workers take blocks as in persistent.cuh, one
// at a time; when the first kernel's blocks are done, the second's stop at their next.
struct CorunPadded {  // hw/transform/launch_parameters.h has the same
  CorunLaunch first, second;
  unsigned sms, per_sm;  // for the first: SMs below `sms`, `per_sm` workers on each
  unsigned seats;        // 1: more workers than that may come to an SM
  unsigned pad;
};

/// A worker's only block.  Without a loop around it the body is compiled as in the plain kernel.
template <class Call, class Meet>
static __device__ __forceinline__ void corun_take_one(const CorunLaunch& launch, unsigned most_on_sm,
                                                      CorunControl* stops, Call call, Meet all_left) {
  __shared__ CorunSlot slot;
  CorunControl* const c = launch.control;
  if (corun_is_leader()) {
    slot.blocks = 0;
    if (most_on_sm == 0 || atomicAdd(&c->present[corun_sm()], 1u) < most_on_sm) {
      const unsigned long long taken = corun_take(c);
      const unsigned i = (unsigned)taken;
      if (i < launch.chunks && ((unsigned)(taken >> 32) & CORUN_STOP) != 0) {
        corun_stopped_at(launch, i);
      } else if (i < launch.chunks) {
        const unsigned block = launch.first + i, rest = block / launch.grid_x;
        slot.x = block % launch.grid_x, slot.y = rest % launch.grid_y, slot.z = rest / launch.grid_y;
        slot.blocks = 1;
        if ((i & launch.progress_mask) == 0 || i + 1 == launch.chunks)
          *(volatile unsigned*)launch.progress = i + 1;
        if (i + 1 == launch.chunks) *(volatile unsigned*)&launch.progress[1] = 1;
      }
    }
  }
  __syncthreads();
  if (slot.blocks == 0) return;
  call(make_uint3(slot.x, slot.y, slot.z), make_uint3(launch.grid_x, launch.grid_y, launch.grid_z));
  all_left();
  if (corun_is_leader() && atomicAdd(&c->left, 1u) + 1 == launch.chunks)
    atomicOr(&stops->counter, (unsigned long long)CORUN_STOP << 32);  // its last block is done
}

/// Runs `call` for each block that this worker gets; `all_left` has all threads meet after a body.
template <class Call, class Meet>
static __device__ __forceinline__ void corun_take_blocks(const CorunLaunch& launch, unsigned most_on_sm,
                                                         CorunControl* stops, Call call, Meet all_left) {
  __shared__ CorunSlot slot;
  CorunControl* const c = launch.control;
  bool seated = true;
  if (corun_is_leader() && most_on_sm != 0) seated = atomicAdd(&c->present[corun_sm()], 1u) < most_on_sm;
  _Pragma("unroll 1") for (bool again = false;; again = true) {
    if (corun_is_leader()) {
      slot.blocks = 0;
      if (seated) {
        if (again && stops != nullptr) atomicAdd(&c->left, 1u);  // a block is done
        const unsigned long long taken = corun_take(c);
        const unsigned i = (unsigned)taken;
        if (i < launch.chunks && ((unsigned)(taken >> 32) & CORUN_STOP) == 0) {
          const unsigned block = launch.first + i, rest = block / launch.grid_x;
          slot.x = block % launch.grid_x, slot.y = rest % launch.grid_y, slot.z = rest / launch.grid_y;
          slot.blocks = 1;
          if ((i & launch.progress_mask) == 0 || i + 1 == launch.chunks)
            *(volatile unsigned*)launch.progress = i + 1;
          if (i + 1 == launch.chunks) *(volatile unsigned*)&launch.progress[1] = 1;
        } else {
          if (i < launch.chunks) corun_stopped_at(launch, i);
          if (stops != nullptr && atomicAdd(&c->left, 0u) == launch.chunks)
            atomicOr(&stops->counter, (unsigned long long)CORUN_STOP << 32);
        }
      }
    }
    __syncthreads();
    if (slot.blocks == 0) return;
    call(make_uint3(slot.x, slot.y, slot.z), make_uint3(launch.grid_x, launch.grid_y, launch.grid_z));
    all_left();
  }
}
