// What a persistent kernel does around the body of the kernel it was made from: workers take the kernel's
// blocks from a counter, a chunk of consecutive ones at a time and in the grid's order, until there are none,
// the host stops them, or their place is taken back.
//
// The counter's low half counts chunks, its high half is a command that the host writes: one atomic operation
// both takes a chunk and learns of commands, so that polling costs nothing however many workers there are, and
// what was taken before a stop is exactly what is done when the last worker has left.
//
// A worker may be one of many that take a chunk and leave (CORUN_ONCE): the hardware then hands places to new
// blocks as in a plain grid, and the body is compiled as in a plain kernel, without a loop around it.
//
// Leaves out: clusters, cooperative groups over the grid (the transform refuses them).
#define CORUN_STOP 0x80000000u  // of the command; the rest counts changes of size

struct CorunControl {  // hw/transform/launch_parameters.h has the same
  unsigned long long counter;
  unsigned leave;    // workers that have been asked to leave, ever
  unsigned left;     // that did so
  unsigned stopped_at;   // ~ of the least number that was taken after a stop; 0: none was
  unsigned records;      // times that it was lowered
  unsigned long long seats;  // see corun_tell_seats
  unsigned present[256], quota[256];  // workers by SM
};
struct CorunBlockLog {
  unsigned sm, worker;
  unsigned long long start, end;
};
struct CorunLaunch {
  CorunControl* control;
  unsigned* progress;  // host memory: chunks taken; from the 16th word on: numbers taken after a stop, then seats
  CorunBlockLog* log;  // by block of the whole grid; null: none
  unsigned first, end;   // blocks of the grid, in its order, that this launch is to do
  unsigned chunks, large, chunk;  // the first `large` chunks have `chunk` blocks, the others one
  unsigned progress_mask;  // which chunks are reported
  unsigned single;         // 1: each worker leaves after its first chunk
  unsigned seated;         // 1: an SM holds as many workers as its quota says (code with CORUN_SEATED)
  unsigned grid_x, grid_y, grid_z;
};

struct CorunSlot {
  unsigned x, y, z, blocks;  // the chunk's first block, and how many: 0: no more
};
struct CorunLeader {  // in shared memory, used by one thread
  unsigned seen;      // command
  unsigned leaving;
  unsigned ahead;  // whether to take the next chunk while this one runs: not for the last of each worker
};

static __device__ __forceinline__ bool corun_is_leader() {
  return (threadIdx.x | threadIdx.y | threadIdx.z) == 0;
}
// Read anew for each block: what a kernel derives from its thread's index would otherwise be moved out of the
// worker's loop, and cost it registers that the plain kernel has for other things.
static __device__ __forceinline__ uint3 corun_thread_index() {
  uint3 t = {0, 0, 0};
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t.x));
  if (CORUN_BLOCK_DIMENSIONS > 1) asm volatile("mov.u32 %0, %%tid.y;" : "=r"(t.y));
  if (CORUN_BLOCK_DIMENSIONS > 2) asm volatile("mov.u32 %0, %%tid.z;" : "=r"(t.z));
  return t;
}
static __device__ __forceinline__ uint3 corun_grid_size(unsigned x, unsigned y, unsigned z) {
  uint3 g;
  asm volatile("mov.u32 %0, %1;" : "=r"(g.x) : "r"(x));
  g.y = y, g.z = z;
  return g;
}
static __device__ __forceinline__ unsigned corun_sm() {
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}
static __device__ __forceinline__ unsigned long long corun_time() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// Called by the leader alone, whose threadIdx.x is 0.  The compiler, which does not know that, would add up equal
// addends of a warp's lanes first and wait for the sum at once: a prefetch would hide nothing.
static __device__ __forceinline__ unsigned long long corun_take(CorunControl* control) {
  unsigned long long taken;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(taken)
               : "l"(&control->counter), "l"(1ull + threadIdx.x)
               : "memory");
  return taken;
}

#if CORUN_SEATED
/// How many workers have come, and how many have a seat: the host sends more where seats stay empty.  The number
/// of the change, in the high bits, says which of 16 places is the newest, whatever the order of the writes.
#define CORUN_CHANGE (1ull << 40)
#define CORUN_CAME (1ull << 16)
static __device__ __forceinline__ void corun_tell_seats(const CorunLaunch& launch, unsigned long long change) {
  const unsigned long long now = atomicAdd(&launch.control->seats, change) + change;
  ((volatile unsigned long long*)(launch.progress + 32))[(now >> 40) % 16] = now;
}

/// Takes one of the SM's seats.  Who finds none stays a while: grids that ran through an SM with room but no
/// seat would be used up there before others have room.
static __device__ __noinline__ bool corun_find_seat(const CorunLaunch& launch) {
  CorunControl* const c = launch.control;
  const unsigned sm = corun_sm();
  for (bool again = false;; again = true) {
    unsigned present = *(volatile unsigned*)&c->present[sm];
    while (present < *(volatile unsigned*)&c->quota[sm]) {
      const unsigned was = atomicCAS(&c->present[sm], present, present + 1);
      if (was == present) return true;
      present = was;
    }
    const unsigned long long taken = *(volatile unsigned long long*)&c->counter;
    if (again || (unsigned)taken >= launch.chunks || (taken >> 32 & CORUN_STOP) != 0) return false;
    __nanosleep(5000);
  }
}
#endif

/// Whether this worker is one of those to go.  Each asks once per command.
static __device__ __noinline__ bool corun_told_to_leave(const CorunLaunch& launch) {
  CorunControl* const c = launch.control;
#if CORUN_SEATED
  if (launch.seated != 0) {
    const unsigned sm = corun_sm();
    unsigned present = atomicAdd(&c->present[sm], 0u);
    while (present > *(volatile unsigned*)&c->quota[sm]) {
      const unsigned was = atomicCAS(&c->present[sm], present, present - 1);
      if (was == present) return corun_tell_seats(launch, CORUN_CHANGE - 1), true;
      present = was;
    }
    return false;
  }
#endif
  // No compare-and-swap in a loop: a thousand workers that try at once would try a million times, for
  // milliseconds.  Who comes too late takes its number back.
  const unsigned leave = *(volatile unsigned*)&c->leave;
  if (*(volatile unsigned*)&c->left >= leave) return false;
  if (atomicAdd(&c->left, 1u) < leave) return true;
  atomicSub(&c->left, 1u);
  return false;
}

/// The least number that was taken after a stop is how many chunks are done.  Each time that a lower one comes
/// the host is told, in the next of 16 places: the least is among them, whatever the order of the writes.
static __device__ __forceinline__ void corun_stopped_at(const CorunLaunch& launch, unsigned i) {
  CorunControl* const c = launch.control;
  if (atomicMax(&c->stopped_at, ~i) < ~i)
    *(volatile unsigned*)&launch.progress[16 + atomicAdd(&c->records, 1u) % 16] = i;
}

/// Turns what the counter gave into a chunk.
static __device__ __forceinline__ void corun_publish(const CorunLaunch& launch, unsigned long long taken,
                                                     CorunLeader& leader, CorunSlot& slot) {
  const unsigned i = (unsigned)taken, command = (unsigned)(taken >> 32);
#if !CORUN_ONCE
  if (command != leader.seen) {
    leader.seen = command;
    if ((command & CORUN_STOP) == 0) leader.leaving = corun_told_to_leave(launch);
  }
#endif
  unsigned blocks = 0;
  if (i < launch.chunks && (command & CORUN_STOP) == 0) {
#if CORUN_CHUNKED
    const bool large = i < launch.large;
    const unsigned block = launch.first + (large ? i * launch.chunk : launch.large * (launch.chunk - 1) + i);
    blocks = large ? launch.chunk : 1;
#else
    const unsigned block = launch.first + i;
    blocks = 1;
#endif
#if CORUN_DIMENSIONS == 1
    slot.x = block;
#else
    slot.x = block % launch.grid_x;
    const unsigned rest = block / launch.grid_x;
#if CORUN_DIMENSIONS == 2
    slot.y = rest;
#else
    slot.y = rest % launch.grid_y;
    slot.z = rest / launch.grid_y;
#endif
#endif
    if ((i & launch.progress_mask) == 0 || i + 1 == launch.chunks) *(volatile unsigned*)launch.progress = i + 1;
    // Writes of several SMs to one word may come in any order: the last chunk's has its own.
    if (i + 1 == launch.chunks) *(volatile unsigned*)&launch.progress[1] = 1;
  } else if (i < launch.chunks) {
    corun_stopped_at(launch, i);
  }
  slot.blocks = blocks;
#if CORUN_PREFETCH && !CORUN_ONCE
  leader.ahead = blocks != 0 && leader.leaving == 0 && i + gridDim.x < launch.chunks;
#endif
}

/// A worker's first chunk.
static __device__ __forceinline__ void corun_begin(const CorunLaunch& launch, CorunLeader& leader,
                                                   CorunSlot& slot) {
  leader.seen = 0;
  leader.leaving = 0;
#if CORUN_SEATED
  if (launch.seated != 0) {
    const bool seat = corun_find_seat(launch);
    slot.blocks = 0;
    if (seat) corun_publish(launch, corun_take(launch.control), leader, slot);
    corun_tell_seats(launch, CORUN_CHANGE + CORUN_CAME + (seat ? 1 : 0));
    return;
  }
#endif
  corun_publish(launch, corun_take(launch.control), leader, slot);
}

#if CORUN_RETURNS_BEFORE_BARRIERS && (CORUN_CHUNKED || !CORUN_ONCE)
// Threads that have returned from the body go on serving its barriers until all have: the barrier's reduction
// tells them.
// Not inlined: the lanes of a warp, which come from several places, must meet at one.
static __device__ __noinline__ bool corun_arrive(bool returned) {
  __syncwarp();
  return __syncthreads_and(returned) != 0;
}
static __device__ __forceinline__ void corun_barrier() { corun_arrive(false); }
static __device__ __forceinline__ void corun_all_returned() {
  while (!corun_arrive(true)) {
  }
  __syncwarp();  // lanes have come by different ways
}
#else
static __device__ __forceinline__ void corun_barrier() { __syncthreads(); }
static __device__ __forceinline__ void corun_all_returned() { __syncthreads(); }
#endif

// CALL runs the body for the block `corun_at`.
#if CORUN_ONCE
#define CORUN_WORK(CALL)                                                                             \
  __shared__ CorunSlot corun_slots[1];                                                               \
  constexpr unsigned corun_turn = 0;                                                                 \
  if (corun_is_leader()) {                                                                           \
    CorunLeader corun_no_state;                                                                      \
    corun_publish(corun_launch, corun_take(corun_launch.control), corun_no_state, corun_slots[0]);   \
  }                                                                                                  \
  __syncthreads();                                                                                   \
  if (corun_slots[0].blocks == 0) return;                                                            \
  uint3 corun_at = make_uint3(corun_slots[0].x, CORUN_SLOT_Y, CORUN_SLOT_Z);                         \
  CORUN_CHUNK(CALL)
#else
// The loop of a worker.
#define CORUN_WORK(CALL)                                                                             \
  __shared__ CorunSlot corun_slots[2];                                                               \
  __shared__ CorunLeader corun_leader_state;                                                         \
  unsigned corun_turn = 0;                                                                           \
  if (corun_is_leader()) corun_begin(corun_launch, corun_leader_state, corun_slots[0]);              \
  __syncthreads();                                                                                   \
  _Pragma("unroll 1") for (;;) {                                                                     \
    if (corun_slots[corun_turn].blocks == 0) break;                                                  \
    uint3 corun_at = make_uint3(corun_slots[corun_turn].x, CORUN_SLOT_Y, CORUN_SLOT_Z);              \
    CORUN_PREFETCH_TAKE;                                                                             \
    CORUN_CHUNK(CALL)                                                                                \
    corun_turn ^= 1;                                                                                 \
    if (corun_is_leader()) {                                                                         \
      if (corun_leader_state.leaving != 0) {                                                         \
        corun_slots[corun_turn].blocks = 0;                                                          \
      } else if (corun_launch.single != 0) {                                                         \
        corun_slots[corun_turn].blocks = 0;                                                          \
      } else {                                                                                       \
        corun_publish(corun_launch, CORUN_TAKEN, corun_leader_state, corun_slots[corun_turn]);       \
      }                                                                                              \
    }                                                                                                \
    corun_all_returned();                                                                            \
  }
#endif

// Where chunks have one block, nothing but the turn is live while the body runs.
#define CORUN_BLOCK(CALL) \
  CORUN_TELL_HELPERS;     \
  CORUN_LOG_START;        \
  CALL;                   \
  CORUN_LOG_END;
#if CORUN_CHUNKED
#define CORUN_CHUNK(CALL)                                          \
  unsigned corun_left_of_chunk = corun_slots[corun_turn].blocks;   \
  _Pragma("unroll 1") for (;;) {                                   \
    CORUN_BLOCK(CALL)                                              \
    if (--corun_left_of_chunk == 0) break;                         \
    CORUN_NEXT_OF_CHUNK;                                           \
    CORUN_BETWEEN_BLOCKS;                                          \
  }
#else
#define CORUN_CHUNK(CALL) CORUN_BLOCK(CALL)
#endif

#if CORUN_DIMENSIONS == 1
#define CORUN_SLOT_Y 0
#define CORUN_SLOT_Z 0
#define CORUN_NEXT_OF_CHUNK ++corun_at.x
#elif CORUN_DIMENSIONS == 2
#define CORUN_SLOT_Y corun_slots[corun_turn].y
#define CORUN_SLOT_Z 0
#define CORUN_NEXT_OF_CHUNK \
  if (++corun_at.x == corun_launch.grid_x) corun_at.x = 0, ++corun_at.y
#else
#define CORUN_SLOT_Y corun_slots[corun_turn].y
#define CORUN_SLOT_Z corun_slots[corun_turn].z
#define CORUN_NEXT_OF_CHUNK                                        \
  if (++corun_at.x == corun_launch.grid_x) {                       \
    corun_at.x = 0;                                                \
    if (++corun_at.y == corun_launch.grid_y) corun_at.y = 0, ++corun_at.z; \
  }
#endif

// Blocks of a chunk share nothing unless the kernel has shared memory: then all must have left the one before.
#if CORUN_SHARED_MEMORY
#define CORUN_BETWEEN_BLOCKS corun_all_returned()
#else
#define CORUN_BETWEEN_BLOCKS
#endif

// The next chunk is taken while one runs, so that the counter's latency is hidden; near the end, when a worker
// is free, so that none waits behind a long one while others are idle.
#if CORUN_PREFETCH
#define CORUN_PREFETCH_TAKE                                    \
  unsigned long long corun_taken = 0;                          \
  if (corun_is_leader() && corun_leader_state.ahead != 0)      \
  corun_taken = corun_take(corun_launch.control)
#define CORUN_TAKEN (corun_leader_state.ahead != 0 ? corun_taken : corun_take(corun_launch.control))
#else
#define CORUN_PREFETCH_TAKE
#define CORUN_TAKEN corun_take(corun_launch.control)
#endif

// Device functions that read blockIdx or gridDim find them here; the body itself has them in registers.
#if CORUN_HELPERS_READ_INDEX
static __shared__ uint3 corun_block, corun_grid;
#define CORUN_TELL_HELPERS                                                                             \
  if (corun_is_leader()) {                                                                             \
    ::corun_block = corun_at;                                                                          \
    ::corun_grid = make_uint3(corun_launch.grid_x, corun_launch.grid_y, corun_launch.grid_z);          \
  }                                                                                                    \
  corun_barrier()
#else
#define CORUN_TELL_HELPERS
#endif

#if CORUN_LOGGED
#define CORUN_LOG_START const unsigned long long corun_started = corun_time()
#define CORUN_LOG_END                                                                                    \
  if (corun_is_leader() && corun_launch.log)                                                             \
  corun_launch.log[corun_at.x + corun_launch.grid_x * (corun_at.y + corun_launch.grid_y * corun_at.z)] = \
      CorunBlockLog{corun_sm(), blockIdx.x, corun_started, corun_time()}
#else
#define CORUN_LOG_START
#define CORUN_LOG_END
#endif
