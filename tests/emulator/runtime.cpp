// Runs all threads of all blocks of a launch as fibers in one process.
//
// They switch where threads of a GPU meet or wait, and who goes on is drawn from a seed, so that other seeds try other
// interleavings. A launch in which nobody can go on ends with a message that says who waits where.
#include <setjmp.h>
#include <string.h>
#include <ucontext.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace unspool {

constexpr size_t kStack = 1 << 17, kGuard = 4096, kAligned = 16;

enum class State { runnable, at_block, at_cluster, at_warp, waiting, done };

struct Fiber : Running {
  State state = State::runnable;
  bool begun = false;
  const char* where = "";      // what it waits for
  uint64_t looked = 0;         // words that had been posted when it last waited
  int again = 0;               // how often there were as many
  ucontext_t context;
  jmp_buf place;
  std::unique_ptr<char[]> stack;
};

struct Warp {
  int arrived = 0;
  const char* kind = nullptr;
  void* given[kLanes];
};

struct Launch : Runtime {
  int threads, cluster;        // of a block; blocks of a cluster
  uint64_t random, tick;       // tick: nanoseconds that pass whenever somebody looks at the clock
  int slow;                    // a warp that goes on only where nobody else can; -1 if none
  uint64_t now = 1, words = 1;  // words: that have been posted
  void (*entry)(const Runtime*, const void*);
  const void* chunk;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<int> arrived, arrived_in_cluster;  // of each block, at its barrier; of each cluster
  std::vector<std::vector<char>> shared;
  std::vector<Fiber*> runnable, waiting;
  jmp_buf scheduler;
  std::string failure;

  Fiber& current() { return *static_cast<Fiber*>(running); }
  uint64_t draw(uint64_t below) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return random % below;
  }
  // Who goes on.
  size_t next() {
    const size_t first = draw(runnable.size());
    for (size_t k = 0; k < runnable.size(); k++) {
      const size_t which = (first + k) % runnable.size();
      if ((runnable[which]->block * threads + runnable[which]->thread) / kLanes != slow) return which;
    }
    return first;
  }
  void wake(Fiber& fiber) {
    fiber.state = State::runnable;
    runnable.push_back(&fiber);
  }
  void wake_waiting() {
    for (Fiber* each : waiting) wake(*each);
    waiting.clear();
  }
  // Ends the turn of the fiber that runs.
  void leave(State state, const char* where) {
    current().state = state;
    current().where = where;
    if (_setjmp(current().place) == 0) _longjmp(scheduler, 1);
  }
};
static Launch* launch = nullptr;

static void sync_block() {
  const int own = launch->running->block;
  if (++launch->arrived[own] < launch->threads) return launch->leave(State::at_block, "the other threads");
  launch->arrived[own] = 0;
  for (int t = 0; t < launch->threads; t++)
    if (Fiber& each = launch->fibers[own * launch->threads + t]; each.state == State::at_block) launch->wake(each);
}

static void sync_cluster() {
  const int first = launch->running->block / launch->cluster * launch->cluster, all = launch->threads * launch->cluster;
  if (++launch->arrived_in_cluster[first] < all) return launch->leave(State::at_cluster, "the blocks of its cluster");
  launch->arrived_in_cluster[first] = 0;
  for (int t = 0; t < all; t++)
    if (Fiber& each = launch->fibers[first * launch->threads + t]; each.state == State::at_cluster) launch->wake(each);
}

static char* shared_of(int rank) {
  const int first = launch->running->block / launch->cluster * launch->cluster;
  return launch->fibers[(first + rank) * launch->threads].shared;
}

static void fail(const char* why) {
  launch->failure = why;
  _longjmp(launch->scheduler, 1);
}

static void meet(const char* kind, void* given, void (*compute)(void**)) {
  const int number = (launch->running->block * launch->threads + launch->running->thread) / kLanes;
  Warp& warp = launch->warps[number];
  if (warp.arrived && strcmp(warp.kind, kind) != 0) {
    static std::string why;
    why = std::string("lanes of a warp meet at ") + warp.kind + " and at " + kind;
    fail(why.c_str());
  }
  warp.kind = kind;
  warp.given[launch->running->thread % kLanes] = given;
  if (++warp.arrived < kLanes) return launch->leave(State::at_warp, kind);
  compute(warp.given);
  warp.arrived = 0;
  for (int lane = 0; lane < kLanes; lane++)
    if (Fiber& each = launch->fibers[number * kLanes + lane]; &each != launch->running) launch->wake(each);
}

static void pause(const char* what) {
  Fiber& own = launch->current();
  own.again = own.looked == launch->words ? own.again + 1 : 0;
  own.looked = launch->words;
  if (own.again < 2) {  // another lane that it waits with may not have looked yet since the last one was posted
    launch->runnable.push_back(&own);
    return launch->leave(State::runnable, what);
  }
  launch->waiting.push_back(&own);
  launch->leave(State::waiting, what);
}

static void begin() {
  launch->entry(launch, launch->chunk);
  launch->leave(State::done, "");
}

static void turn(Fiber& fiber) {
  launch->running = &fiber;
  if (_setjmp(launch->scheduler) != 0) return;
  if (fiber.begun) _longjmp(fiber.place, 1);
  fiber.begun = true;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStack;
  makecontext(&fiber.context, begin, 0);
  setcontext(&fiber.context);
}

static std::string who_waits() {
  std::map<std::string, int> found;
  for (const Fiber& each : launch->fibers)
    if (each.state != State::done) found["block " + std::to_string(each.block) + " for " + each.where]++;
  std::string text = "nobody can go on:";
  for (const auto& [where, count] : found) text += " " + std::to_string(count) + " threads of " + where + ";";
  return text;
}

static void run_all() {
  while (launch->failure.empty()) {
    if (launch->runnable.empty() && launch->tick) launch->wake_waiting();  // time goes on
    if (launch->runnable.empty()) break;
    const size_t which = launch->next();
    Fiber* const next = launch->runnable[which];
    launch->runnable[which] = launch->runnable.back();
    launch->runnable.pop_back();
    turn(*next);
  }
}

}  // namespace unspool

using namespace unspool;

// Runs a kernel; an empty message if all is well.
extern "C" __attribute__((visibility("default"))) void unspool_emulate(
    void (*entry)(const Runtime*, const void*), const void* chunk, int64_t blocks, int64_t threads,
    int64_t shared_bytes, int64_t withheld, uint64_t seed, uint64_t tick, int64_t slow, int64_t cluster, char* message,
    int64_t room) {
  Launch all;
  launch = &all;
  all.sync_block = sync_block, all.meet = meet, all.pause = pause, all.fail = fail;
  all.posted = [] { launch->words++, launch->wake_waiting(); };
  all.nanoseconds = [] { return launch->now += launch->tick; };
  all.sync_cluster = sync_cluster, all.shared_of = shared_of, all.cluster = int(cluster);
  all.threads = int(threads), all.tick = tick, all.slow = int(slow), all.entry = entry, all.chunk = chunk;
  all.random = seed * 2654435761u + 88172645463325252u;
  all.fibers = std::vector<Fiber>(blocks * threads);
  all.warps.resize(blocks * threads / kLanes);
  all.arrived.resize(blocks);
  all.arrived_in_cluster.resize(blocks);
  all.shared.assign(blocks, std::vector<char>(shared_bytes + kAligned + kGuard, '\xFF'));  // NaN: nobody has written it
  for (int64_t number = 0; number < blocks * threads; number++) {
    Fiber& fiber = all.fibers[number];
    fiber.thread = int(number % threads), fiber.block = int(number / threads);
    char* const raw = all.shared[fiber.block].data();
    fiber.shared = raw + (kAligned - (uintptr_t)raw % kAligned) % kAligned;
    if (fiber.block >= blocks - withheld) {  // it never runs
      fiber.state = State::done;
      continue;
    }
    fiber.stack.reset(new char[kStack]);
    all.runnable.push_back(&fiber);
  }
  run_all();
  for (const Fiber& each : all.fibers)
    if (each.state != State::done && all.failure.empty()) all.failure = who_waits();
  for (const std::vector<char>& memory : all.shared)
    for (size_t k = shared_bytes + kAligned; k < memory.size(); k++)
      if (memory[k] != '\xFF' && all.failure.empty()) all.failure = "a block has written behind its shared memory";
  strncpy(message, all.failure.c_str(), room - 1);
  launch = nullptr;
}
