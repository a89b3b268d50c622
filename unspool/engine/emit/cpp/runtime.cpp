// What all loops share, compiled once for a machine: matrix products, and the division of rows among threads.
//
// Products are by matrices that stay the same for many steps, so these are packed once, in panels as wide as a few
// vector registers, and a product reads them from end to end. With few rows this is faster than a general BLAS, which
// packs at every call (docs/engine.md has the measurements).

#include <cstdlib>
#include <cstring>
#include <memory>

#include "loop.h"

namespace unspool {

#if defined(__AVX512F__)
constexpr int64_t kBytes = 64;
#elif defined(__AVX__)
constexpr int64_t kBytes = 32;
#else
constexpr int64_t kBytes = 16;
#endif
constexpr int64_t kVectors = 2;  // in a panel
constexpr int64_t kCache = 1 << 18;  // bytes of the second cache that a product may count on
constexpr int64_t kRows = kBytes == 64 ? 8 : 6;  // whose sums fit into the registers

template <typename T> constexpr int64_t kLanes = kBytes / sizeof(T);
template <typename T> constexpr int64_t kPanel = kVectors * kLanes<T>;

template <typename T> struct Vector;
template <> struct Vector<float> {
  typedef float Type __attribute__((vector_size(kBytes), aligned(4), may_alias));
};
template <> struct Vector<double> {
  typedef double Type __attribute__((vector_size(kBytes), aligned(8), may_alias));
};

template <typename T> int64_t panels_of(int64_t width) { return (width + kPanel<T> - 1) / kPanel<T>; }

// One panel of a matrix, `used` columns wide, zeros beside them.
template <typename T>
void pack_panel(int64_t depth, int64_t used, const T* matrix, int64_t down, int64_t right, T* panel) {
  constexpr int64_t W = kPanel<T>, kBlock = 16;
  if (right == 1 && used == W) {
    for (int64_t k = 0; k < depth; k++) std::memcpy(panel + k * W, matrix + k * down, W * sizeof(T));
    return;
  }
  if (used < W) std::memset(panel, 0, depth * W * sizeof(T));
  for (int64_t first = 0; first < depth; first += kBlock) {  // few cache lines at a time, whichever way it lies
    const int64_t last = first + kBlock < depth ? first + kBlock : depth;
    for (int64_t j = 0; j < used; j++)
      for (int64_t k = first; k < last; k++) panel[k * W + j] = matrix[k * down + j * right];
  }
}

template <typename T>
void pack(int64_t depth, int64_t width, const T* matrix, int64_t down, int64_t right, T* panels) {
  constexpr int64_t W = kPanel<T>;
  for (int64_t begin = 0; begin < width; begin += W, panels += depth * W)
    pack_panel(depth, width - begin < W ? width - begin : W, matrix + begin * right, down, right, panels);
}

// M rows by V vectors of each of P panels, summed in registers.
template <typename T, int M, int P, int V>
inline void tile(int64_t depth, const T* left, int64_t left_apart, const T* panels, const T* added,
                 int64_t added_apart, T* out, int64_t out_apart) {
  using Vec = typename Vector<T>::Type;
  constexpr int64_t L = kLanes<T>, W = kPanel<T>;
  Vec sums[M][P * V];
  for (int m = 0; m < M; m++)
    for (int p = 0; p < P; p++)
      for (int v = 0; v < V; v++)
        sums[m][p * V + v] =
            added ? *reinterpret_cast<const Vec*>(added + m * added_apart + p * W + v * L) : Vec{};
  for (int64_t k = 0; k < depth; k++) {
    Vec right[P * V];
    for (int p = 0; p < P; p++)
      for (int v = 0; v < V; v++)
        right[p * V + v] = *reinterpret_cast<const Vec*>(panels + (p * depth + k) * W + v * L);
    for (int m = 0; m < M; m++)
      for (int v = 0; v < P * V; v++) sums[m][v] += left[m * left_apart + k] * right[v];
  }
  for (int m = 0; m < M; m++)
    for (int p = 0; p < P; p++)
      for (int v = 0; v < V; v++)
        *reinterpret_cast<Vec*>(out + m * out_apart + p * W + v * L) = sums[m][p * V + v];
}

// The last panel, of which only `used` columns are there.
template <typename T, int M>
void edge(int64_t depth, int64_t used, const T* left, int64_t left_apart, const T* panel, const T* added,
          int64_t added_apart, T* out, int64_t out_apart) {
  constexpr int64_t W = kPanel<T>;
  alignas(kBytes) T whole[M * W];
  for (int m = 0; m < M; m++)
    for (int64_t j = 0; j < W; j++) whole[m * W + j] = added && j < used ? added[m * added_apart + j] : T(0);
  if (used <= kLanes<T>)
    tile<T, M, 1, 1>(depth, left, left_apart, panel, whole, W, whole, W);
  else
    tile<T, M, 1, kVectors>(depth, left, left_apart, panel, whole, W, whole, W);
  for (int m = 0; m < M; m++)
    for (int64_t j = 0; j < used; j++) out[m * out_apart + j] = whole[m * W + j];
}

// M rows by the panels from `begin` to `end`.
template <typename T, int M>
void strip(int64_t depth, int64_t width, const T* left, int64_t left_apart, const T* panels, const T* added,
           int64_t added_apart, T* out, int64_t out_apart, int64_t begin, int64_t end) {
  constexpr int64_t W = kPanel<T>;
  // With few rows, several panels at once: a sum must not wait for the one before it.
  constexpr int P = M <= 2 ? 4 : M <= 3 ? 2 : 1;
  const int64_t whole = width / W < end ? width / W : end;
  int64_t p = begin;
  for (; p + P <= whole; p += P)
    tile<T, M, P, kVectors>(depth, left, left_apart, panels + p * depth * W, added ? added + p * W : nullptr,
                            added_apart, out + p * W, out_apart);
  if constexpr (P > 1)
    for (; p < whole; p++)
      tile<T, M, 1, kVectors>(depth, left, left_apart, panels + p * depth * W, added ? added + p * W : nullptr,
                              added_apart, out + p * W, out_apart);
  if (p < end)
    edge<T, M>(depth, width - p * W, left, left_apart, panels + p * depth * W, added ? added + p * W : nullptr,
               added_apart, out + p * W, out_apart);
}

template <typename T, int M>
void strip_of(int64_t rows, int64_t depth, int64_t width, const T* left, int64_t left_apart, const T* panels,
              const T* added, int64_t added_apart, T* out, int64_t out_apart, int64_t begin, int64_t end) {
  if (rows == M)
    strip<T, M>(depth, width, left, left_apart, panels, added, added_apart, out, out_apart, begin, end);
  else if constexpr (M > 1)
    strip_of<T, M - 1>(rows, depth, width, left, left_apart, panels, added, added_apart, out, out_apart, begin, end);
}

template <typename T>
void multiply(int64_t rows, int64_t depth, int64_t width, const T* left, int64_t left_apart, const T* panels,
              const T* added, int64_t added_apart, T* out, int64_t out_apart, int64_t share, int64_t shares) {
  const int64_t count = panels_of<T>(width), last = count * (share + 1) / shares;
  const int64_t strips = (rows + kRows - 1) / kRows;
  // As many panels at a time as stay in the cache for all strips.
  const int64_t fitting = kCache / (depth * kPanel<T> * static_cast<int64_t>(sizeof(T)));
  const int64_t step = strips == 1 || fitting > count ? count : fitting < 1 ? 1 : fitting;
  for (int64_t begin = count * share / shares; begin < last; begin += step) {
    const int64_t end = begin + step < last ? begin + step : last;
    for (int64_t s = 0, row = 0; s < strips; s++) {
      const int64_t here = (rows - row + strips - s - 1) / (strips - s);  // as even as can be
      strip_of<T, kRows>(here, depth, width, left + row * left_apart, left_apart, panels,
                         added ? added + row * added_apart : nullptr, added_apart, out + row * out_apart, out_apart,
                         begin, end);
      row += here;
    }
  }
}

// -- sums over rows ---------------------------------------------------------------------------------------------------

// A factor of sums over rows, out[k][n] = sum over r of left[r][k] * right[r][n]; without memory, its only column is 1.
template <typename T> struct Factor {
  const T* left;
  int64_t apart, width;
  T* out;
};

constexpr int64_t kBlockRows = 256;  // whose panel stays in the first cache

// Columns `first` to `first + kRows` of a factor, one after another for every row, zeros beside them.
template <typename T> void pack_columns(int64_t rows, const Factor<T>& factor, int64_t first, T* columns) {
  const int64_t used = factor.width - first < kRows ? factor.width - first : kRows;
  if (factor.left && used == kRows) {
    for (int64_t r = 0; r < rows; r++)
      std::memcpy(columns + r * kRows, factor.left + r * factor.apart + first, kRows * sizeof(T));
    return;
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t m = 0; m < kRows; m++)
      columns[r * kRows + m] = m >= used ? T(0) : factor.left ? factor.left[r * factor.apart + first + m] : T(1);
}

// M columns of a factor times a panel.
template <typename T, int M>
void sum_tile(int64_t rows, const T* columns, const T* panel, bool add, T* out, int64_t out_apart, int64_t width) {
  using Vec = typename Vector<T>::Type;
  constexpr int64_t L = kLanes<T>, W = kPanel<T>;
  for (int m = 0; m < M; m++)  // what it is added to comes closer in the meantime
    for (int v = 0; v < kVectors; v++) __builtin_prefetch(out + m * out_apart + v * L, 1);
  Vec sums[M][kVectors] = {};
  for (int64_t r = 0; r < rows; r++) {
    Vec right[kVectors];
    for (int v = 0; v < kVectors; v++) right[v] = *reinterpret_cast<const Vec*>(panel + r * W + v * L);
    for (int m = 0; m < M; m++)
      for (int v = 0; v < kVectors; v++) sums[m][v] += columns[r * kRows + m] * right[v];
  }
  for (int m = 0; m < M; m++) {
    T* const here = out + m * out_apart;
    if (width == W) {
      for (int v = 0; v < kVectors; v++) {
        Vec& whole = *reinterpret_cast<Vec*>(here + v * L);
        whole = add ? whole + sums[m][v] : sums[m][v];
      }
    } else {
      alignas(kBytes) T edge[W];
      for (int v = 0; v < kVectors; v++) *reinterpret_cast<Vec*>(edge + v * L) = sums[m][v];
      for (int64_t j = 0; j < width; j++) here[j] = (add ? here[j] : T(0)) + edge[j];
    }
  }
}

template <typename T, int M>
void sum_tile_of(int64_t height, int64_t rows, const T* columns, const T* panel, bool add, T* out, int64_t out_apart,
                 int64_t width) {
  if (height == M)
    sum_tile<T, M>(rows, columns, panel, add, out, out_apart, width);
  else if constexpr (M > 1)
    sum_tile_of<T, M - 1>(height, rows, columns, panel, add, out, out_apart, width);
}

// A share of the sums over `rows` rows of every factor times `right`, [rows][width].
template <typename T>
void sum_products(int64_t rows, int64_t width, const T* right, int64_t right_apart, const Factor<T>* factors,
                  int64_t count, T* scratch, int64_t share, int64_t shares) {
  constexpr int64_t W = kPanel<T>;
  const int64_t panels = panels_of<T>(width);
  int64_t tiles = 0, left_width = 0;
  for (int64_t f = 0; f < count; f++) {
    tiles += (factors[f].width + kRows - 1) / kRows;
    left_width += factors[f].width;
  }
  // Panels of the right factor are divided if it is the wider one and the left ones, which everybody then reads, stay in
  // the cache. Those that are left over are divided by the tiles of the left factors; else all are.
  const bool near = tiles * kBlockRows * kRows * static_cast<int64_t>(sizeof(T)) <= kCache;
  const int64_t own = near && width >= left_width ? panels / shares : 0;
  const int64_t tile_begin = tiles * share / shares, tile_end = tiles * (share + 1) / shares;
  T* const panel = scratch;
  T* const columns = scratch + kBlockRows * W;
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    const int64_t here = rows - begin < kBlockRows ? rows - begin : kBlockRows;
    auto every_tile = [&](int64_t from, int64_t to, auto&& body) {
      int64_t number = 0;
      for (int64_t f = 0; f < count; f++)
        for (int64_t first = 0; first < factors[f].width; first += kRows, number++)
          if (number >= from && number < to) body(factors[f], first, columns + number * kBlockRows * kRows);
    };
    every_tile(own ? 0 : tile_begin, own ? tiles : tile_end, [&](const Factor<T>& factor, int64_t first, T* place) {
      Factor<T> later = factor;
      if (later.left) later.left += begin * later.apart;
      pack_columns(here, later, first, place);
    });
    auto every_panel = [&](int64_t from, int64_t to, int64_t first_tile, int64_t last_tile) {
      for (int64_t p = from; p < to; p++) {
        const int64_t used = width - p * W < W ? width - p * W : W;
        pack_panel(here, used, right + begin * right_apart + p * W, right_apart, int64_t(1), panel);
        every_tile(first_tile, last_tile, [&](const Factor<T>& factor, int64_t first, T* place) {
          const int64_t height = factor.width - first < kRows ? factor.width - first : kRows;
          sum_tile_of<T, kRows>(height, here, place, panel, begin > 0, factor.out + first * width + p * W, width, used);
        });
      }
    };
    every_panel(own * share, own * (share + 1), 0, tiles);
    every_panel(own * shares, panels, tile_begin, tile_end);
  }
}

// Elements of scratch that a worker needs for that.
template <typename T> int64_t sum_scratch(const Factor<T>* factors, int64_t count) {
  int64_t tiles = 0;
  for (int64_t f = 0; f < count; f++) tiles += (factors[f].width + kRows - 1) / kRows;
  return kBlockRows * (kPanel<T> + tiles * kRows);
}

namespace {

// The OpenMP runtime that torch uses: one pool of threads for both.
using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
Parallel parallel_ = nullptr;
int (*thread_number_)() = nullptr;
int (*team_size_)() = nullptr;

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
  int64_t own_bytes(int64_t workers) const {
    const int64_t rows = rows_of(workers);
    int64_t bytes = aligned(needs->block * rows) + aligned(needs->row) + kAligned;
    bytes += aligned(needs->summed_count * sizeof(void*));
    if (!divided) return bytes + aligned(needs->products * rows);
    for (int64_t k = 0; k < needs->carried_count; k++) bytes += aligned(needs->carried_bytes[k] * rows);
    for (int64_t k = 0; k < needs->emitted_count; k++) bytes += aligned(needs->emitted_bytes[k] * rows);
    for (int64_t k = 0; k < needs->summed_count; k++) bytes += aligned(needs->summed_bytes[k]);
    return bytes + (needs->carried_count + needs->emitted_count) * sizeof(void*) + 2 * kAligned;
  }
  int64_t common_bytes() const { return divided ? 2 * aligned(needs->products * chunk->rows) : 0; }

  void work(int64_t number, int64_t workers) const;
};

void Job::work(int64_t number, int64_t workers) const {
  const int64_t rows = rows_of(workers);
  char* free = memory + common_bytes() + number * own_bytes(workers);
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
  worker.block = take(needs->block * rows);
  worker.row = take(needs->row);
  worker.products = divided ? memory : take(needs->products * rows);
  worker.other_products = divided ? aligned(needs->products * rows) : 0;
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
  const int64_t bytes = job.common_bytes() + workers * (job.own_bytes(workers) + aligned(needs->block + needs->products));
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
void unspool_pack_float(int64_t depth, int64_t width, const float* matrix, int64_t down, int64_t right, float* panels) {
  unspool::pack(depth, width, matrix, down, right, panels);
}
void unspool_pack_double(int64_t depth, int64_t width, const double* matrix, int64_t down, int64_t right,
                         double* panels) {
  unspool::pack(depth, width, matrix, down, right, panels);
}
}
