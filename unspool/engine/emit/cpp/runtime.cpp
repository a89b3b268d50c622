// What all loops share, compiled once for a machine: matrix products, and the division of rows among threads.

#include <cstdlib>
#include <memory>

#include "largest.h"
#include "loop.h"
#include "products.h"
#include "row_sums.h"

namespace unspool {
namespace {

// The OpenMP runtime that torch uses: one pool of threads for both.
using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
Parallel parallel_ = nullptr;
int (*thread_number_)() = nullptr;
int (*team_size_)() = nullptr;

// From libraries of their own, where a loop needs them.
Convolve<float> convolve_float_ = nullptr;
Convolve<double> convolve_double_ = nullptr;
Correlate<float> correlate_float_ = nullptr;
Correlate<double> correlate_double_ = nullptr;

constexpr int64_t kAligned = 64;
constexpr int64_t kWorthAThread = 100000;  // multiplications; starting a thread takes as long as some ten thousands
constexpr int64_t kWorthAMeeting = 20000;  // of one step: a barrier takes as long as some thousands
constexpr int64_t kElement = 16;           // multiplications that take as long as an element of pointwise work
constexpr int64_t kNear = 1 << 19;         // bytes of matrices that stay in a processor's own cache
constexpr int64_t kNearBytes = 2;          // of these that are read in the time of a multiplication; of others, one

int64_t aligned(int64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

struct Job {
  Steps steps;
  const Chunk* chunk;
  const Needs* needs;
  bool divided;                  // by columns, not by rows
  bool ragged;
  char* memory;
  Barrier* barrier;

  int64_t rows_of(int64_t workers) const { return divided ? chunk->rows : (chunk->rows + workers - 1) / workers; }
  int64_t rows_at_once(int64_t workers) const { return needs->by_row ? 1 : rows_of(workers); }
  int64_t own_bytes(int64_t workers) const {
    const int64_t rows = rows_of(workers), at_once = rows_at_once(workers);
    int64_t bytes = aligned(needs->block * at_once) + aligned(needs->row) + aligned(search_scratch(needs->search_depth) * rows) + kAligned;
    bytes += aligned(needs->summed_count * sizeof(void*));
    if (!divided) return bytes + aligned(needs->products * at_once) + aligned(found_bytes(1));
    for (int64_t k = 0; k < needs->carried_count; k++) bytes += aligned(needs->carried_bytes[k] * rows);
    for (int64_t k = 0; k < needs->emitted_count; k++) bytes += aligned(needs->emitted_bytes[k] * rows);
    for (int64_t k = 0; k < needs->summed_count; k++) bytes += aligned(needs->summed_bytes[k]);
    return bytes + (needs->carried_count + needs->emitted_count) * sizeof(void*) + 2 * kAligned;
  }
  int64_t common_bytes(int64_t workers) const {
    return divided ? 2 * aligned(needs->products * rows_at_once(workers)) + aligned(found_bytes(workers)) : 0;
  }
  int64_t found_bytes(int64_t shares) const {
    return 2 * needs->searches * shares * chunk->rows * static_cast<int64_t>(sizeof(Found));
  }

  void work(int64_t number, int64_t workers) const;
};

void Job::work(int64_t number, int64_t workers) const {
  const int64_t rows = rows_of(workers), at_once = rows_at_once(workers);
  char* free = memory + common_bytes(workers) + number * own_bytes(workers);
  auto take = [&](int64_t bytes) {
    char* here = free;
    free += aligned(bytes);
    return here;
  };
  Worker worker{};
  worker.first = divided ? 0 : ragged ? number : chunk->rows * number / workers;
  worker.apart = !divided && ragged ? workers : 1;
  worker.end = divided || ragged ? chunk->rows : chunk->rows * (number + 1) / workers;
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
  worker.multiply_float = multiply<float>;
  worker.multiply_double = multiply<double>;
  worker.convolve_float = convolve_float_;
  worker.convolve_double = convolve_double_;
  worker.correlate_float = correlate_float_;
  worker.correlate_double = correlate_double_;
  worker.search_share = search_share;
  if (!worker.visible) {
    auto carried = reinterpret_cast<void**>(take(needs->carried_count * sizeof(void*)));
    auto emitted = reinterpret_cast<void**>(take(needs->emitted_count * sizeof(void*)));
    for (int64_t k = 0; k < needs->carried_count; k++) carried[k] = take(needs->carried_bytes[k] * rows);
    for (int64_t k = 0; k < needs->emitted_count; k++) emitted[k] = take(needs->emitted_bytes[k] * rows);
    for (int64_t k = 0; k < needs->carried_count; k++)
      std::memcpy(carried[k], chunk->carried[k], needs->carried_bytes[k] * rows);
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
  return (multiply > read ? multiply : read) + kElement * needs.other_work * own + (divided ? kWorthAMeeting / 2 : 0);
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

using Memory = std::unique_ptr<char, decltype(&std::free)>;

Memory allocate(int64_t bytes) {
  return Memory(static_cast<char*>(std::aligned_alloc(kAligned, aligned(bytes + kAligned))), &std::free);
}

template <typename T> struct SumJob {
  int64_t rows, width, right_apart, count, scratch;
  const T* right;
  const Factor<T>* factors;
  char* memory;

  static void work(void* given) {
    const SumJob& job = *static_cast<const SumJob*>(given);
    job.work(thread_number_(), team_size_());
  }
  void work(int64_t number, int64_t workers) const {
    sum_products(rows, width, right, right_apart, factors, count, reinterpret_cast<T*>(memory + number * scratch),
                 number, workers);
  }
};

template <typename T>
int run_sums(int64_t rows, int64_t width, const T* right, int64_t right_apart, const Factor<T>* factors, int64_t count,
             int64_t threads) {
  int64_t height = 0;
  for (int64_t f = 0; f < count; f++) height += factors[f].width;
  const int64_t worth = rows * width * height / kWorthAThread;
  const int64_t wanted = threads < worth ? threads : worth;
  const int64_t workers = parallel_ && wanted > 1 ? wanted : 1;
  const int64_t scratch = aligned(sum_scratch(factors, count) * sizeof(T));
  const Memory memory = allocate(workers * scratch);
  if (!memory) return 1;
  SumJob<T> job{rows, width, right_apart, count, scratch, right, factors, memory.get()};
  if (workers == 1)
    job.work(0, 1);
  else
    parallel_(SumJob<T>::work, &job, static_cast<unsigned>(workers), 0);
  return 0;
}

}  // namespace
}  // namespace unspool

extern "C" {

void unspool_use_threads(void* parallel, void* thread_number, void* team_size) {
  using namespace unspool;
  parallel_ = reinterpret_cast<Parallel>(parallel);
  thread_number_ = reinterpret_cast<int (*)()>(thread_number);
  team_size_ = reinterpret_cast<int (*)()>(team_size);
}

void unspool_use_convolutions_float(void* convolve, void* correlate) {
  unspool::convolve_float_ = reinterpret_cast<unspool::Convolve<float>>(convolve);
  unspool::correlate_float_ = reinterpret_cast<unspool::Correlate<float>>(correlate);
}
void unspool_use_convolutions_double(void* convolve, void* correlate) {
  unspool::convolve_double_ = reinterpret_cast<unspool::Convolve<double>>(convolve);
  unspool::correlate_double_ = reinterpret_cast<unspool::Correlate<double>>(correlate);
}

// 0, or 1 if there is not enough memory.
int unspool_run(void* steps, const unspool::Chunk* chunk, const unspool::Needs* needs, int64_t threads) {
  using namespace unspool;
  if (chunk->steps == 0 || chunk->rows == 0) return 0;
  Job job{};
  job.steps = reinterpret_cast<Steps>(steps);
  job.chunk = chunk;
  job.needs = needs;
  job.ragged = chunk->counts[chunk->steps - 1] != chunk->rows;
  const int64_t workers = workers_for(*chunk, *needs, threads, &job.divided);
  // A team may turn out smaller than asked for: then each has more rows, but together they need no more memory.
  const int64_t spare = aligned(needs->block + needs->products + search_scratch(needs->search_depth));
  const int64_t bytes = job.common_bytes(workers) + workers * (job.own_bytes(workers) + spare);
  const Memory memory = allocate(bytes);
  if (!memory) return 1;
  job.memory = memory.get();
  if (workers == 1) {
    job.work(0, 1);
    return 0;
  }
  Barrier barrier;
  job.barrier = &barrier;
  parallel_(work_of_a_thread, &job, static_cast<unsigned>(workers), 0);
  return 0;
}

// out = left^T @ right, summed over rows, for every factor. 0, or 1 if there is not enough memory.
int unspool_sums_float(int64_t rows, int64_t width, const float* right, int64_t right_apart,
                       const unspool::Factor<float>* factors, int64_t count, int64_t threads) {
  return unspool::run_sums(rows, width, right, right_apart, factors, count, threads);
}
int unspool_sums_double(int64_t rows, int64_t width, const double* right, int64_t right_apart,
                        const unspool::Factor<double>* factors, int64_t count, int64_t threads) {
  return unspool::run_sums(rows, width, right, right_apart, factors, count, threads);
}

int64_t unspool_packed_float(int64_t depth, int64_t width) {
  return unspool::panels_of<float>(width) * unspool::kPanel<float> * depth;
}
int64_t unspool_packed_double(int64_t depth, int64_t width) {
  return unspool::panels_of<double>(width) * unspool::kPanel<double> * depth;
}
int64_t unspool_search_bytes(int64_t depth, int64_t width) { return unspool::search_bytes(depth, width); }
void unspool_pack_search(int64_t depth, int64_t width, const float* columns, void* packed) {
  unspool::pack_search(depth, width, columns, packed);
}
void unspool_pack_float(int64_t depth, int64_t width, const float* matrix, int64_t down, int64_t right, float* panels) {
  unspool::pack(depth, width, matrix, down, right, panels);
}
void unspool_pack_double(int64_t depth, int64_t width, const double* matrix, int64_t down, int64_t right,
                         double* panels) {
  unspool::pack(depth, width, matrix, down, right, panels);
}
}
