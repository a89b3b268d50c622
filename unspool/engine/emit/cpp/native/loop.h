// What a loop's steps are told, and how their rows are divided among workers.
#pragma once

#include <sched.h>
#include <stdint.h>

#include "functions.h"

namespace unspool {

// An index that is out of range.
struct Fault {
  int64_t found;               // 0 as long as there was none
  int64_t index, axis, size;
};

// One chunk of steps. What a row has lies side by side; streamed and emitted values have the rows of all steps one after
// another.
struct Chunk {
  int64_t steps;
  int64_t reverse;             // whether to run from the last step to the first
  int64_t rows;                // of the first step in time; they never grow with time
  const int64_t* counts;       // the rows of each step
  const int64_t* starts;       // the rows of all steps before it
  void* const* shared;         // matrices packed, everything else as it is
  void* const* streamed;
  void* const* emitted;
  void* const* carried;        // taken over and handed on, in place
  void* const* summed;         // sums over rows, zero at first: a row for each worker
  Fault* fault;                // the first index that was out of range
  const int64_t* apart;        // how many elements apart the rows of each streamed value are; 0 if there is but one
};

// Writes down the first fault; any worker may have it.
[[gnu::noinline, gnu::cold]] inline void report(Fault* fault, int64_t index, int64_t size, int64_t axis) {
  int64_t none = 0;
  if (!__atomic_compare_exchange_n(&fault->found, &none, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
  fault->index = index;
  fault->size = size;
  fault->axis = axis;
}

// An index, or 0 if it is out of range: the loop goes on to its end, and what it has computed is thrown away.
inline int64_t place(int64_t index, int64_t size, int64_t axis, Fault* fault) {
  if (index >= 0 && index < size) return index;
  report(fault, index, size, axis);
  return 0;
}
inline int64_t place_from_end(int64_t index, int64_t size, int64_t axis, Fault* fault) {
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  report(fault, index, size, axis);
  return 0;
}

// What a loop needs besides, in bytes and operations a row.
struct Needs {
  int64_t block;               // scratch for every row
  int64_t products;            // scratch for every row, for results of products
  int64_t row;                 // scratch for one row at a time
  int64_t by_row;              // whether one row after another goes through a step, and all have the same scratch
  int64_t search_depth;        // the most numbers that a searched product's rows have
  int64_t searches;            // how many there are in a step
  int64_t product_work;        // multiplications and additions of a step's products
  int64_t matrix_bytes;        // which these read, whatever the number of rows
  int64_t other_work;          // elements computed in a step
  int64_t carried_count, emitted_count, summed_count;
  const int64_t* carried_bytes;
  const int64_t* emitted_bytes;
  const int64_t* summed_bytes;
};

// Where workers wait for each other.
class Barrier {
 public:
  void wait(int64_t workers) {
    const int64_t round = __atomic_load_n(&round_, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&arrived_, 1, __ATOMIC_ACQ_REL) == workers) {
      __atomic_store_n(&arrived_, 0, __ATOMIC_RELAXED);
      __atomic_store_n(&round_, round + 1, __ATOMIC_RELEASE);
    } else {
      for (int64_t spins = 0; __atomic_load_n(&round_, __ATOMIC_ACQUIRE) == round; spins++)
        if (spins > 4096) sched_yield();  // somebody else needs the processor
    }
  }

 private:
  alignas(64) int64_t arrived_ = 0;
  alignas(64) int64_t round_ = 0;
};

template <typename T>
using Multiply = void (*)(int64_t rows, int64_t depth, int64_t width, const T* left, int64_t left_apart, const T* panels,
                          const T* added, int64_t added_apart, T* out, int64_t out_apart, int64_t share, int64_t shares);

// Halves: halves/numbers.h. What is added to a product of these, and what comes of it, are numbers of that type, or float.
struct bfloat16;
struct float16;
struct Addend {
  const void* numbers;         // or nullptr
  int64_t apart;
  bool is_float;
};
struct Outcome {
  void* numbers;
  int64_t apart;
  bool is_float;
};
template <typename T>
using MultiplyHalves = void (*)(int64_t rows, int64_t depth, int64_t width, const T* left, int64_t left_apart,
                                const T* panels, const Addend& added, const Outcome& out, int64_t share, int64_t shares);

// What is searched for the largest entry of each row: left @ matrix + added.
struct Search {
  int64_t depth, width;
  const float* left;
  int64_t left_apart;
  const void* packed;          // the matrix as a search reads it
  const float* columns;        // and as it is, one column after another
  const float* added;          // or nullptr
  int64_t added_apart;
};

// How a row's image is convolved, and what is added to that: convolutions.h.
struct Convolution;
template <typename T> struct Convolved {
  const Convolution* how;
  const T* image;
  const T* filters;            // packed
  const T* added;              // or nullptr
  int64_t added_channel;       // how far apart the channels of what is added are
  bool per_pixel;              // whether it has a number for each pixel of a channel, not one for all
};
template <typename T>
using Convolve = void (*)(const Convolved<T>&, T* out, char* scratch, int64_t share, int64_t shares);

// What filters have a gradient by: the image that was convolved, and the gradient of what came of it.
template <typename T> struct Correlated {
  const Convolution* how;
  const T* image;
  const T* gradient;
  int64_t gradient_channel;    // how far apart its channels are
};
template <typename T>
using Correlate = void (*)(const Correlated<T>&, double* sums, char* scratch, int64_t share, int64_t shares);

// What was found: an entry, and its column.
struct Found {
  float value;
  int64_t column;
};

using SearchShare = void (*)(int64_t rows, const Search&, char* scratch, int64_t share, int64_t shares, Found*);

// Functions of libraries that are built where a loop needs them (kernels.py); nullptr where none has.
struct Kernels {
  Multiply<float> multiply_float;
  Multiply<double> multiply_double;
  MultiplyHalves<bfloat16> multiply_bfloat16;
  MultiplyHalves<float16> multiply_float16;
  Convolve<float> convolve_float;
  Convolve<double> convolve_double;
  Correlate<float> correlate_float;
  Correlate<double> correlate_double;
  SearchShare search_share;
  int64_t (*search_scratch)(int64_t depth);  // bytes for a row
};

// Which rows a worker has: from `first` to `end`. Or, where there are few rows for each, all of them, but only a share of
// each product's columns; it then has state and outputs of its own, and only the first worker's are seen.
struct Worker {
  int64_t first, end;
  int64_t share, shares;
  int64_t visible;             // 1, or 0 if what it emits is thrown away
  char* block;
  char* products;
  int64_t other_products;      // how far away the products of odd steps are
  char* row;
  char* search;
  Found* found;                // of every search, share and row; those of odd steps after those of even ones
  int64_t found_rows;
  void* const* carried;
  void* const* emitted;
  void* const* summed;
  Barrier* barrier;
  const Kernels* kernels;

  int64_t rows(int64_t count) const {
    const int64_t below = count < end ? count : end;
    return below <= first ? 0 : below - first;
  }

  // out = left @ matrix + added, for `rows` rows; distances between rows are counted in elements.
  void multiply(int64_t rows, int64_t depth, int64_t width, const float* left, int64_t left_apart, const float* panels,
                const float* added, int64_t added_apart, float* out, int64_t out_apart) const {
    kernels->multiply_float(rows, depth, width, left, left_apart, panels, added, added_apart, out, out_apart, share,
                            shares);
  }
  void multiply(int64_t rows, int64_t depth, int64_t width, const double* left, int64_t left_apart,
                const double* panels, const double* added, int64_t added_apart, double* out, int64_t out_apart) const {
    kernels->multiply_double(rows, depth, width, left, left_apart, panels, added, added_apart, out, out_apart, share,
                             shares);
  }
  template <typename Added, typename Out>
  void multiply(int64_t rows, int64_t depth, int64_t width, const bfloat16* left, int64_t left_apart,
                const bfloat16* panels, const Added* added, int64_t added_apart, Out* out, int64_t out_apart) const {
    kernels->multiply_bfloat16(rows, depth, width, left, left_apart, panels, {added, added_apart, is_float(added)},
                               {out, out_apart, is_float(out)}, share, shares);
  }
  template <typename Added, typename Out>
  void multiply(int64_t rows, int64_t depth, int64_t width, const float16* left, int64_t left_apart,
                const float16* panels, const Added* added, int64_t added_apart, Out* out, int64_t out_apart) const {
    kernels->multiply_float16(rows, depth, width, left, left_apart, panels, {added, added_apart, is_float(added)},
                              {out, out_apart, is_float(out)}, share, shares);
  }
  static bool is_float(const float*) { return true; }
  static bool is_float(const void*) { return false; }
  // out = a convolution of a row's image.
  void convolve(const Convolved<float>& what, float* out) const {
    kernels->convolve_float(what, out, row, share, shares);
  }
  void convolve(const Convolved<double>& what, double* out) const {
    kernels->convolve_double(what, out, row, share, shares);
  }
  // sums += the gradient of filters by a row.
  void correlate(const Correlated<float>& what, double* sums) const {
    kernels->correlate_float(what, sums, row, share, shares);
  }
  void correlate(const Correlated<double>& what, double* sums) const {
    kernels->correlate_double(what, sums, row, share, shares);
  }
  // out = the column in which each row of a product is largest. `number`: of the searches of even steps, then of odd ones.
  void largest(int64_t rows, const Search& search, int64_t* out, int64_t out_apart, int64_t number) const {
    Found* const all = found + number * shares * found_rows;
    kernels->search_share(rows, search, this->search, share, shares, all + share * found_rows);
    meet();
    for (int64_t r = 0; r < rows; r++) {
      Found best = all[r];
      for (int64_t s = 1; s < shares; s++)
        if (exceeds(all[s * found_rows + r].value, best.value)) best = all[s * found_rows + r];
      out[r * out_apart] = best.column;
    }
  }
  void meet() const {
    if (shares > 1) barrier->wait(shares);
  }
};

using Steps = void (*)(const Chunk&, const Worker&);

}  // namespace unspool
