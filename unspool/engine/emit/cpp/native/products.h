// Products of rows by a matrix that stays the same for many steps.
//
// The matrix is packed once, in panels as wide as a few vector registers, and a product reads them from end to end. With
// few rows this is faster than a general BLAS, which packs at every call (docs/engine.md has the measurements).
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

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
constexpr int64_t kTerms = 256;  // that are summed before they are added to those before them
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

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

// Panels that few rows are multiplied with at once: a sum must not wait for the one before it.
template <int M>
constexpr int kPanelsAtOnce = kRegisters == 32 ? (M <= 6 ? 2 : 1) : (M <= 1 ? 4 : M <= 3 ? 2 : 1);
// Whether sums, columns of so many panels and the entry of a row that they are multiplied with have registers.
template <int M> constexpr bool kFits = (M + 1) * kPanelsAtOnce<M> * kVectors < kRegisters;

// Has a value in a register from here on: compilers would rather read it from memory for every row.
template <typename T> [[gnu::always_inline]] inline void keep_in_register(typename Vector<T>::Type& value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));
#elif defined(__x86_64__)
  asm("" : "+x"(value));
#elif defined(__aarch64__)
  asm("" : "+w"(value));
#endif
}

// Calls `body(first row, count)` for strips of rows, as even as can be.
template <typename Body> void in_strips(int64_t rows, Body&& body) {
  const int64_t strips = (rows + kRows - 1) / kRows;
  for (int64_t s = 0, row = 0; s < strips; s++) {
    const int64_t here = (rows - row + strips - s - 1) / (strips - s);
    body(row, here);
    row += here;
  }
}

template <typename T> int64_t panels_of(int64_t width) { return (width + kPanel<T> - 1) / kPanel<T>; }

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define UNSPOOL_SHUFFLES
#endif
#endif

#ifdef UNSPOOL_SHUFFLES
// Lines and columns of a square of vectors, exchanged: blocks beside the diagonal change places, ever larger ones.
template <typename T, int Apart, std::size_t... Lane>
[[gnu::always_inline]] inline void exchange(typename Vector<T>::Type* lines, std::index_sequence<Lane...> lanes) {
  using Vec = typename Vector<T>::Type;
  constexpr int L = sizeof...(Lane);
  for (int i = 0; i < L; i++) {
    if (i & Apart) continue;
    const Vec above = lines[i], below = lines[i + Apart];
    lines[i] = __builtin_shufflevector(above, below, (Lane & Apart ? L + int(Lane) - Apart : int(Lane))...);
    lines[i + Apart] = __builtin_shufflevector(above, below, (Lane & Apart ? L + int(Lane) : int(Lane) + Apart)...);
  }
  if constexpr (2 * Apart < L) exchange<T, 2 * Apart>(lines, lanes);
}
#endif

// Columns that lie one after another in memory, into a panel: whole squares of them, and what is left.
template <typename T>
void pack_columns_of(int64_t depth, int64_t used, const T* matrix, int64_t right, T* panel) {
  constexpr int64_t W = kPanel<T>;
  int64_t whole_depth = 0, whole_width = 0;
#ifdef UNSPOOL_SHUFFLES
  using Vec = typename Vector<T>::Type;
  constexpr int64_t L = kLanes<T>;
  whole_depth = depth / L * L, whole_width = used / L * L;
  for (int64_t j = 0; j < whole_width; j += L)
    for (int64_t k = 0; k < whole_depth; k += L) {
      Vec lines[L];
      for (int64_t l = 0; l < L; l++) lines[l] = *reinterpret_cast<const Vec*>(matrix + (j + l) * right + k);
      exchange<T, 1>(lines, std::make_index_sequence<L>());
      for (int64_t l = 0; l < L; l++) *reinterpret_cast<Vec*>(panel + (k + l) * W + j) = lines[l];
    }
#endif
  for (int64_t j = 0; j < used; j++)
    for (int64_t k = j < whole_width ? whole_depth : 0; k < depth; k++) panel[k * W + j] = matrix[k + j * right];
}

// One panel of a matrix, `used` columns wide, zeros beside them.
template <typename T>
void pack_panel(int64_t depth, int64_t used, const T* matrix, int64_t down, int64_t right, T* panel) {
  constexpr int64_t W = kPanel<T>, kBlock = 16;
  if (right == 1 && used == W) {
    for (int64_t k = 0; k < depth; k++) std::memcpy(panel + k * W, matrix + k * down, W * sizeof(T));
    return;
  }
  if (used < W) std::memset(panel, 0, depth * W * sizeof(T));
  if (down == 1) return pack_columns_of(depth, used, matrix, right, panel);
  if (right == 1) {
    const int64_t whole = used / kLanes<T> * kLanes<T>;
    for (int64_t k = 0; k < depth; k++, panel += W, matrix += down) {
      for (int64_t j = 0; j < whole; j += kLanes<T>) std::memcpy(panel + j, matrix + j, kBytes);
      for (int64_t j = whole; j < used; j++) panel[j] = matrix[j];
    }
    return;
  }
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

// Adds the terms from `begin` to `end` of M rows by V vectors of each of P panels to sums, all in registers.
template <typename T, int M, int P, int V>
[[gnu::always_inline]] inline void add_terms(int64_t begin, int64_t end, int64_t depth, const T* left,
                                             int64_t left_apart, const T* panels,
                                             typename Vector<T>::Type (&sums)[M][P * V]) {
  using Vec = typename Vector<T>::Type;
  constexpr int64_t L = kLanes<T>, W = kPanel<T>;
  for (int64_t k = begin; k < end; k++) {
    Vec right[P * V];
    for (int p = 0; p < P; p++)
      for (int v = 0; v < V; v++)
        right[p * V + v] = *reinterpret_cast<const Vec*>(panels + (p * depth + k) * W + v * L);
    if constexpr (M > 1 && kFits<M>)
      for (int v = 0; v < P * V; v++) keep_in_register<T>(right[v]);
    for (int m = 0; m < M; m++)
      for (int v = 0; v < P * V; v++) sums[m][v] += left[m * left_apart + k] * right[v];
  }
}

// Where 16 registers are all, a compiler that has to keep the sums before those of a block as well reads a panel again
// for every row.
#if defined(__AVX512F__) || defined(__aarch64__)
#define UNSPOOL_BLOCK [[gnu::always_inline]] inline
#else
#define UNSPOOL_BLOCK [[gnu::noinline]]
#endif

// The same, summed by themselves first.
template <typename T, int M, int P, int V>
UNSPOOL_BLOCK void add_block(int64_t begin, int64_t end, int64_t depth, const T* left, int64_t left_apart,
                                 const T* panels, typename Vector<T>::Type (&total)[M][P * V]) {
  typename Vector<T>::Type sums[M][P * V] = {};
  add_terms<T, M, P, V>(begin, end, depth, left, left_apart, panels, sums);
  for (int m = 0; m < M; m++)
    for (int v = 0; v < P * V; v++) total[m][v] += sums[m][v];
}

// M rows by V vectors of each of P panels: a block of the terms at a time, since what is added to a large sum is rounded
// to its last digits.
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
  auto write = [&](const Vec(&whole)[M][P * V]) __attribute__((always_inline)) {
    for (int m = 0; m < M; m++)
      for (int p = 0; p < P; p++)
        for (int v = 0; v < V; v++)
          *reinterpret_cast<Vec*>(out + m * out_apart + p * W + v * L) = whole[m][p * V + v];
  };
  if (depth <= kTerms) {
    add_terms<T, M, P, V>(0, depth, depth, left, left_apart, panels, sums);
    write(sums);
    return;
  }
  Vec total[M][P * V];
  std::memcpy(total, sums, sizeof total);
  const int64_t blocks = (depth + kTerms - 1) / kTerms;
  for (int64_t b = 0; b < blocks; b++)
    add_block<T, M, P, V>(depth * b / blocks, depth * (b + 1) / blocks, depth, left, left_apart, panels, total);
  write(total);
}

// The last panel, of which only `used` columns are there.
template <typename T, int M>
void edge(int64_t depth, int64_t used, const T* left, int64_t left_apart, const T* panel, const T* added,
          int64_t added_apart, T* out, int64_t out_apart) {
  constexpr int64_t W = kPanel<T>;
  if (used == kLanes<T>) {
    tile<T, M, 1, 1>(depth, left, left_apart, panel, added, added_apart, out, out_apart);
    return;
  }
  alignas(kBytes) T whole[M * W];
  if (added) {
    std::memset(whole, 0, sizeof whole);
    for (int m = 0; m < M; m++) std::memcpy(whole + m * W, added + m * added_apart, used * sizeof(T));
  }
  const T* const before = added ? whole : nullptr;
  if (used < kLanes<T>)
    tile<T, M, 1, 1>(depth, left, left_apart, panel, before, W, whole, W);
  else
    tile<T, M, 1, kVectors>(depth, left, left_apart, panel, before, W, whole, W);
  for (int m = 0; m < M; m++) std::memcpy(out + m * out_apart, whole + m * W, used * sizeof(T));
}

// M rows by the panels from `begin` to `end`.
template <typename T, int M>
void strip(int64_t depth, int64_t width, const T* left, int64_t left_apart, const T* panels, const T* added,
           int64_t added_apart, T* out, int64_t out_apart, int64_t begin, int64_t end) {
  constexpr int64_t W = kPanel<T>;
  constexpr int P = kPanelsAtOnce<M>;
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
  // As many panels at a time as stay in the cache for all strips.
  const int64_t fitting = kCache / (depth * kPanel<T> * static_cast<int64_t>(sizeof(T)));
  const int64_t step = rows <= kRows || fitting > count ? count : fitting < 1 ? 1 : fitting;
  for (int64_t begin = count * share / shares; begin < last; begin += step) {
    const int64_t end = begin + step < last ? begin + step : last;
    in_strips(rows, [&](int64_t row, int64_t here) {
      strip_of<T, kRows>(here, depth, width, left + row * left_apart, left_apart, panels,
                         added ? added + row * added_apart : nullptr, added_apart, out + row * out_apart, out_apart,
                         begin, end);
    });
  }
}

}  // namespace unspool
