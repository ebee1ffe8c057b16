// Tells a program that the GPU has as many SMs as the variable SMS says, so that libraries choose the kernels that they choose on a part of
// the GPU.  It stands before dlsym and cuGetProcAddress, through which a CUDA runtime finds the driver's functions.
//
//   cc -shared -fPIC -O1 -o sms.so sms.c -ldl; SMS=52 LD_PRELOAD=$PWD/sms.so PROGRAM
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { kMultiprocessorCount = 16 };  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

typedef void *(*Dlsym)(void *, const char *);
typedef int (*Attribute)(int *, int, int);
typedef int (*ProcAddress)(const char *, void **, int, unsigned long long, void *);

static Attribute attribute_of_driver;
static ProcAddress address_of_driver;

static void *found(void *library, const char *name) {
  static Dlsym next;
  if (!next) next = (Dlsym)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (!next) next = (Dlsym)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  return next(library, name);
}

static int attribute(int *value, int which, int device) {
  const int error = attribute_of_driver(value, which, device);
  const char *sms = getenv("SMS");
  if (!error && which == kMultiprocessorCount && sms) *value = atoi(sms);
  return error;
}

static int address(const char *name, void **function, int version, unsigned long long flags, void *status);

// Ours of those two; the driver's is kept.
static void *stand_before(const char *name, void *driver) {
  if (!strcmp(name, "cuDeviceGetAttribute")) {
    attribute_of_driver = (Attribute)driver;
    return (void *)attribute;
  }
  if (!strcmp(name, "cuGetProcAddress") || !strcmp(name, "cuGetProcAddress_v2")) {
    if (driver != (void *)address) address_of_driver = (ProcAddress)driver;
    return (void *)address;
  }
  return driver;
}

static int address(const char *name, void **function, int version, unsigned long long flags, void *status) {
  const int error = address_of_driver(name, function, version, flags, status);
  if (!error && function && *function) *function = stand_before(name, *function);
  return error;
}

void *dlsym(void *library, const char *name) {
  void *driver = found(library, name);
  // The first cuGetProcAddress has other parameters: a runtime that asks for it finds what it wants there or by dlsym.
  return driver && strcmp(name, "cuGetProcAddress") ? stand_before(name, driver) : driver;
}
