// What all loops share, compiled once for a machine: the division of work among threads. What they call besides is in
// libraries of their own.

#include <stdlib.h>

#include "loop.h"

namespace unspool {

using Share = void (*)(const void* what, char* scratch, int64_t share, int64_t shares);

namespace {

// The OpenMP runtime that torch uses: one pool of threads for both.
using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
Parallel parallel_ = nullptr;
int (*thread_number_)() = nullptr;
int (*team_size_)() = nullptr;

Kernels kernels_{};

constexpr int64_t kAligned = 64;
constexpr int64_t kWorthAThread = 100000;  // multiplications; starting a thread takes as long as some ten thousands
constexpr int64_t kWorthAMeeting = 20000;  // of one step, for every worker that takes part
constexpr int64_t kMeeting = 80000;        // that a step could do instead: waiting, and reading what others have written
constexpr int64_t kElement = 16;           // multiplications that take as long as an element of pointwise work
constexpr int64_t kNear = 1 << 19;         // bytes of matrices that stay in a processor's own cache
constexpr int64_t kNearBytes = 2;          // of these that are read in the time of a multiplication; of others, one

int64_t aligned(int64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

int64_t search_scratch(int64_t depth) { return kernels_.search_scratch ? kernels_.search_scratch(depth) : 0; }

struct Job {
  Steps steps;
  const Chunk* chunk;
  const Needs* needs;
  bool divided;                  // by columns, not by rows
  char* memory;
  Barrier* barrier;

  // The first row of a worker. Rows of neighbours are divided where all have about as much to do, not in turns: where one
  // row ends within a cache line and the next one begins, two processors would write to it by turns.
  int64_t first_of(int64_t number, int64_t workers) const {
    if (divided || number == 0) return 0;
    const int64_t whole = 2 * chunk->starts[chunk->steps] / workers * number;
    int64_t low = 0, high = chunk->rows;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (row_steps(middle) + row_steps(middle + 1) > whole)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  int64_t end_of(int64_t number, int64_t workers) const {
    return divided || number + 1 == workers ? chunk->rows : first_of(number + 1, workers);
  }
  // How often one of the first `rows` rows runs.
  int64_t row_steps(int64_t rows) const {
    int64_t sum = 0;
    for (int64_t t = 0; t < chunk->steps; t++) sum += chunk->counts[t] < rows ? chunk->counts[t] : rows;
    return sum;
  }

  int64_t scratch_rows(int64_t rows) const { return needs->by_row ? 1 : rows; }
  int64_t row_bytes() const {
    return search_scratch(needs->search_depth) + (needs->by_row ? 0 : needs->block + (divided ? 0 : needs->products));
  }
  // What a worker needs for itself, the rows that it has aside.
  int64_t own_bytes() const {
    int64_t bytes = aligned(needs->row) + aligned(needs->summed_count * sizeof(void*)) + 4 * kAligned;
    if (needs->by_row) bytes += aligned(needs->block) + aligned(needs->products);
    if (!divided) return bytes + aligned(found_bytes(1));
    for (int64_t k = 0; k < needs->carried_count; k++) bytes += aligned(needs->carried_bytes[k] * chunk->rows);
    for (int64_t k = 0; k < needs->emitted_count; k++) bytes += aligned(needs->emitted_bytes[k] * chunk->rows);
    for (int64_t k = 0; k < needs->summed_count; k++) bytes += aligned(needs->summed_bytes[k]);
    return bytes + (needs->carried_count + needs->emitted_count) * sizeof(void*) + 2 * kAligned;
  }
  int64_t common_bytes(int64_t workers) const {
    return divided ? 2 * aligned(needs->products * scratch_rows(chunk->rows)) + aligned(found_bytes(workers)) : 0;
  }
  // All memory in front of a worker's own, of which the first row is `first`.
  int64_t bytes_before(int64_t number, int64_t workers, int64_t first) const {
    const int64_t rows = divided ? number * chunk->rows : first;
    return common_bytes(workers) + number * aligned(own_bytes()) + aligned(rows * row_bytes());
  }
  int64_t found_bytes(int64_t shares) const {
    return 2 * needs->searches * shares * chunk->rows * static_cast<int64_t>(sizeof(Found));
  }

  void work(int64_t number, int64_t workers) const;
};

void Job::work(int64_t number, int64_t workers) const {
  Worker worker{};
  worker.first = first_of(number, workers);
  worker.end = end_of(number, workers);
  const int64_t rows = worker.end - worker.first, at_once = scratch_rows(rows);
  char* free = memory + bytes_before(number, workers, worker.first);
  auto take = [&](int64_t bytes) {
    char* here = free;
    free += aligned(bytes);
    return here;
  };
  worker.share = divided ? number : 0;
  worker.shares = divided ? workers : 1;
  worker.visible = !divided || number == 0;
  worker.block = take(needs->block * at_once);
  worker.row = take(needs->row);
  worker.products = divided ? memory : take(needs->products * at_once);
  worker.other_products = divided ? aligned(needs->products * at_once) : 0;
  worker.search = take(search_scratch(needs->search_depth) * rows);
  worker.found = reinterpret_cast<Found*>(divided ? memory + 2 * worker.other_products : take(found_bytes(1)));
  worker.found_rows = chunk->rows;
  auto summed = reinterpret_cast<void**>(take(needs->summed_count * sizeof(void*)));
  for (int64_t k = 0; k < needs->summed_count; k++)
    summed[k] = worker.visible ? static_cast<char*>(chunk->summed[k]) + number * needs->summed_bytes[k]
                               : take(needs->summed_bytes[k]);
  worker.summed = summed;
  worker.carried = chunk->carried;
  worker.emitted = chunk->emitted;
  worker.barrier = barrier;
  worker.kernels = &kernels_;
  if (!worker.visible) {
    auto carried = reinterpret_cast<void**>(take(needs->carried_count * sizeof(void*)));
    auto emitted = reinterpret_cast<void**>(take(needs->emitted_count * sizeof(void*)));
    for (int64_t k = 0; k < needs->carried_count; k++) carried[k] = take(needs->carried_bytes[k] * rows);
    for (int64_t k = 0; k < needs->emitted_count; k++) emitted[k] = take(needs->emitted_bytes[k] * rows);
    for (int64_t k = 0; k < needs->carried_count; k++)
      __builtin_memcpy(carried[k], chunk->carried[k], needs->carried_bytes[k] * rows);
    worker.carried = carried;
    worker.emitted = emitted;
  }
  worker.meet();  // the first worker may write to its state once all have copied it
  steps(*chunk, worker);
}

void work_of_a_thread(void* job) {
  static_cast<const Job*>(job)->work(thread_number_(), team_size_());
}

// How long a step takes, counted in multiplications. Every worker either has all rows and a share of the matrices, and
// repeats what is not a product; or it has a share of the rows, and reads the matrices whole.
int64_t step_time(const Needs& needs, int64_t rows, int64_t workers, bool divided) {
  const int64_t own = divided ? rows : (rows + workers - 1) / workers;
  const int64_t bytes = divided ? needs.matrix_bytes / workers : needs.matrix_bytes;
  const int64_t read = bytes <= kNear ? bytes / kNearBytes : bytes;
  const int64_t multiply = divided ? needs.product_work * rows / workers : needs.product_work * own;
  return (multiply > read ? multiply : read) + kElement * needs.other_work * own + (divided ? kMeeting : 0);
}

// How many threads a chunk is worth.
int64_t workers_for(const Chunk& chunk, const Needs& needs, int64_t threads, bool* divided) {
  *divided = false;
  if (!parallel_ || threads <= 1) return 1;
  const int64_t row_steps = chunk.starts[chunk.steps];
  const int64_t all = (needs.product_work + kElement * needs.other_work) * row_steps / kWorthAThread;
  if (all <= 1) return 1;
  const int64_t workers = threads < all ? threads : all;
  const int64_t worth = needs.product_work * chunk.rows / kWorthAMeeting;
  const int64_t by_columns = workers < worth ? workers : worth, by_rows = workers < chunk.rows ? workers : chunk.rows;
  *divided = by_columns > 1 && step_time(needs, row_steps / chunk.steps, by_columns, true) <
                                   step_time(needs, row_steps / chunk.steps, by_rows, false);
  return *divided ? by_columns : by_rows;
}

// Memory that ends with its scope; `bytes` is nullptr if there was not enough.
struct Memory {
  explicit Memory(int64_t size) : bytes(static_cast<char*>(aligned_alloc(kAligned, aligned(size + kAligned)))) {}
  Memory(const Memory&) = delete;
  ~Memory() { free(bytes); }
  char* const bytes;
};

// Work of which every thread does a share, with scratch of its own.
struct Shared {
  Share share;
  const void* what;
  char* memory;
  int64_t scratch;

  static void work(void* given) {
    const Shared& own = *static_cast<const Shared*>(given);
    own.work(thread_number_(), team_size_());
  }
  void work(int64_t number, int64_t workers) const { share(what, memory + number * scratch, number, workers); }
};

}  // namespace
}  // namespace unspool

extern "C" {

void unspool_use_threads(void* parallel, void* thread_number, void* team_size) {
  using namespace unspool;
  parallel_ = reinterpret_cast<Parallel>(parallel);
  thread_number_ = reinterpret_cast<int (*)()>(thread_number);
  team_size_ = reinterpret_cast<int (*)()>(team_size);
}

unspool::Kernels* unspool_kernels() { return &unspool::kernels_; }

// 0, or 1 if there is not enough memory.
int unspool_run(void* steps, const unspool::Chunk* chunk, const unspool::Needs* needs, int64_t threads) {
  using namespace unspool;
  if (chunk->steps == 0 || chunk->rows == 0) return 0;
  Job job{};
  job.steps = reinterpret_cast<Steps>(steps);
  job.chunk = chunk;
  job.needs = needs;
  const int64_t workers = workers_for(*chunk, *needs, threads, &job.divided);
  // A team may turn out smaller than asked for: then each has more rows, but together they need no more memory.
  const Memory memory(job.bytes_before(workers, workers, chunk->rows));
  if (!memory.bytes) return 1;
  job.memory = memory.bytes;
  if (workers == 1) {
    job.work(0, 1);
    return 0;
  }
  Barrier barrier;
  job.barrier = &barrier;
  parallel_(work_of_a_thread, &job, static_cast<unsigned>(workers), 0);
  return 0;
}

// Does shares of some work, each with so many bytes of scratch. 0, or 1 if there is not enough memory.
int unspool_share(unspool::Share share, const void* what, int64_t multiplications, int64_t scratch, int64_t threads) {
  using namespace unspool;
  const int64_t worth = multiplications / kWorthAThread, wanted = threads < worth ? threads : worth;
  const int64_t workers = parallel_ && wanted > 1 ? wanted : 1;
  const Memory memory(workers * aligned(scratch));
  if (!memory.bytes) return 1;
  Shared shared{share, what, memory.bytes, aligned(scratch)};
  if (workers == 1)
    shared.work(0, 1);
  else
    parallel_(Shared::work, &shared, static_cast<unsigned>(workers), 0);
  return 0;
}
}
