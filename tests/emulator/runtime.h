// What the text of a kernel calls of the emulator that runs it.
#include <stdint.h>

namespace unspool {

constexpr int kLanes = 32;

struct Running {
  int thread, block;
  char* shared;                // memory of its block
};

struct Runtime {
  Running* running;            // the thread that runs now
  void (*sync_block)();
  void (*sync_cluster)();
  char* (*shared_of)(int rank);  // memory of another block of the cluster
  void (*meet)(const char* kind, void* given, void (*compute)(void** given));
  void (*posted)();            // a word has been written
  void (*pause)(const char* what);
  uint64_t (*nanoseconds)();
  void (*fail)(const char* why);
};

}  // namespace unspool
