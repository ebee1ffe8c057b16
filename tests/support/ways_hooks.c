// Linked into the build of tests/ways.py: who called whom, each pair once between two marks, in the order of first calls. One thread runs.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define HOOK __attribute__((no_instrument_function)) void
enum { kPairs = 1 << 20, kDeep = 1 << 16 };
static struct { uintptr_t caller, callee; unsigned epoch; } pairs[kPairs];
static uintptr_t stack[kDeep], marks[2];
static unsigned depth, epoch = 1;
static FILE* out;

HOOK __cyg_profile_func_enter(void*, void*);
HOOK __cyg_profile_func_exit(void*, void*);

static HOOK put(uintptr_t a, uintptr_t b) { fwrite((uintptr_t[2]){a, b}, sizeof a, 2, out); }

static HOOK mark(uintptr_t function, unsigned leaves) {
  if (function != marks[leaves]) return;
  ++epoch;
  put(leaves, function);
}

HOOK __cyg_profile_func_enter(void* entered, void* site) {
  const uintptr_t callee = (uintptr_t)entered, caller = depth ? stack[depth - 1] : 0, here = (uintptr_t)&__cyg_profile_func_enter;
  (void)site;
  if (!out) {
    char* next = getenv("CORUN_WAYS_MARKS");  // of the functions that begin a way when entered and end it when left: distances from here
    out = fopen(getenv("CORUN_WAYS"), "wb");
    if (!out || !next) abort();
    for (int i = 0; i < 2; ++i) marks[i] = here + (uintptr_t)strtoll(next, &next, 10);
    put(here, 0);
  }
  mark(callee, 0);
  for (uintptr_t at = (caller * 31 + callee) % kPairs;; at = (at + 1) % kPairs) {
    if (pairs[at].epoch == epoch && (pairs[at].caller != caller || pairs[at].callee != callee)) continue;
    if (pairs[at].epoch != epoch) put(caller, callee);
    pairs[at].epoch = epoch, pairs[at].caller = caller, pairs[at].callee = callee;
    break;
  }
  if (depth == kDeep) abort();
  stack[depth++] = callee;
}

HOOK __cyg_profile_func_exit(void* left, void* site) {
  (void)site;
  --depth;
  mark((uintptr_t)left, 1);
}
