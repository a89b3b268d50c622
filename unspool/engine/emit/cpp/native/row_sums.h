// Products that sum over rows: gradients of weights.
#pragma once

#include "products.h"

namespace unspool {

// How numbers of a type are summed: the type of sums, and what rows are packed as, how many entries so many rows have.
template <typename T> struct Summing {
  using Sum = T;
  using Packed = T;
  static int64_t packed_rows(int64_t rows) { return rows; }
};
template <typename T> using Sum = typename Summing<T>::Sum;
template <typename T> using Packed = typename Summing<T>::Packed;

// A factor of sums over rows, out[k][n] = sum over r of left[r][k] * right[r][n]; without memory, its only column is 1.
template <typename T> struct Factor {
  const T* left;
  int64_t apart, width;
  Sum<T>* out;
  double* totals;              // totals[k] = sum over r of left[r][k]; or nullptr
};

// Sums over `rows` rows of every factor times `right`, [rows][width].
template <typename T> struct Sums {
  int64_t rows, width;
  const T* right;
  int64_t right_apart;
  const Factor<T>* factors;
  int64_t count;
};

constexpr int64_t kBlockRows = 256;  // whose panel stays in the first cache
constexpr int64_t kNear = 1 << 19;   // bytes of packed columns that stay in the second cache: half of it, as of 2024
constexpr int64_t kAhead = 64;       // bytes of a row after those being packed: they come closer in the meantime

// How many columns of a factor a tile has.
template <typename T> int64_t width_of(const Factor<T>& factor, int64_t first) {
  return factor.width - first < kRows ? factor.width - first : kRows;
}

// Columns `first` to `first + kRows` of a factor, one after another for every row, zeros beside them.
template <typename T> void pack_columns(int64_t rows, const Factor<T>& factor, int64_t first, T* columns) {
  const int64_t used = width_of(factor, first);
  if (factor.left && used == kRows) {
    for (int64_t r = 0; r < rows; r++) {
      const T* const here = factor.left + r * factor.apart + first;
      std::memcpy(columns + r * kRows, here, kRows * sizeof(T));
      __builtin_prefetch(here + kAhead / sizeof(T));
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t m = 0; m < kRows; m++)
      columns[r * kRows + m] = m >= used ? T(0) : factor.left ? factor.left[r * factor.apart + first + m] : T(1);
}

// What an entry of packed columns adds to the total of its column.
template <typename T> inline T in_total(T entry) { return entry; }

// Adds packed columns up: `rows` entries of each, of which `used` columns count.
template <typename Packed>
void add_columns(int64_t rows, const Packed* columns, int64_t used, bool add, double* totals) {
  constexpr int64_t kParts = 8;  // that do not wait for each other, and have fewer rows to round
  decltype(in_total(*columns)) parts[kParts * kRows] = {};
  int64_t r = 0;
  for (; r + kParts <= rows; r += kParts)
    #pragma omp simd
    for (int64_t i = 0; i < kParts * kRows; i++) parts[i] += in_total(columns[r * kRows + i]);
  for (int64_t i = 0; i < (rows - r) * kRows; i++) parts[i] += in_total(columns[r * kRows + i]);
  for (int64_t m = 0; m < used; m++) {
    double total = add ? totals[m] : 0;
    for (int64_t k = 0; k < kParts; k++) total += parts[k * kRows + m];
    totals[m] = total;
  }
}

// Adds what packed rows have to sums.
template <int M, typename T>
[[gnu::always_inline]] inline void sum_rows(int64_t rows, const T* columns, const T* panel,
                                            typename Vector<T>::Type (&sums)[M][kVectors]) {
  using Vec = typename Vector<T>::Type;
  auto add = [&](int64_t r, Vec(&to)[M][kVectors]) __attribute__((always_inline)) {
    Vec right[kVectors];
    for (int v = 0; v < kVectors; v++)
      right[v] = *reinterpret_cast<const Vec*>(panel + r * kPanel<T> + v * kLanes<T>);
    for (int m = 0; m < M; m++)
      for (int v = 0; v < kVectors; v++) to[m][v] += columns[r * kRows + m] * right[v];
  };
  int64_t r = 0;
  if constexpr (constexpr int C = kPanelsAtOnce<M>; C > 1) {  // rows with sums of their own
    Vec own[C][M][kVectors] = {};
    for (; r + C <= rows; r += C)
      for (int c = 0; c < C; c++) add(r + c, own[c]);
    for (int c = 0; c < C; c++)
      for (int m = 0; m < M; m++)
        for (int v = 0; v < kVectors; v++) sums[m][v] += own[c][m][v];
  }
  for (; r < rows; r++) add(r, sums);
}

// M columns of a factor times a panel.
template <int M, typename T, typename Packed>
void sum_tile(int64_t rows, const Packed* columns, const Packed* panel, bool add, T* out, int64_t out_apart,
              int64_t width) {
  using Vec = typename Vector<T>::Type;
  constexpr int64_t L = kLanes<T>, W = kPanel<T>;
  for (int m = 0; m < M; m++)  // what it is added to comes closer in the meantime
    for (int v = 0; v < kVectors; v++) __builtin_prefetch(out + m * out_apart + v * L, 1);
  Vec sums[M][kVectors] = {};
  sum_rows<M>(rows, columns, panel, sums);
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

template <int M, typename T, typename Packed>
void sum_tile_of(int64_t height, int64_t rows, const Packed* columns, const Packed* panel, bool add, T* out,
                 int64_t out_apart, int64_t width) {
  if (height == M)
    sum_tile<M>(rows, columns, panel, add, out, out_apart, width);
  else if constexpr (M > 1)
    sum_tile_of<M - 1>(height, rows, columns, panel, add, out, out_apart, width);
}

// A share of the sums.
template <typename T> void sum_products(const Sums<T>& sums, char* scratch, int64_t share, int64_t shares) {
  const int64_t rows = sums.rows, width = sums.width, right_apart = sums.right_apart, count = sums.count;
  const T* const right = sums.right;
  const Factor<T>* const factors = sums.factors;
  constexpr int64_t W = kPanel<Sum<T>>;
  const int64_t panels = panels_of<Sum<T>>(width), block = Summing<T>::packed_rows(kBlockRows);
  int64_t tiles = 0, left_width = 0;
  for (int64_t f = 0; f < count; f++) {
    tiles += (factors[f].width + kRows - 1) / kRows;
    left_width += factors[f].width;
  }
  // Panels of the right factor are divided if it is the wider one and the left ones, which everybody then reads, stay in
  // the cache. Those that are left over are divided by the tiles of the left factors; else all are.
  const bool near = tiles * block * kRows * static_cast<int64_t>(sizeof(Packed<T>)) <= kNear;
  const int64_t own = near && width >= left_width ? panels / shares : 0;
  const int64_t tile_begin = tiles * share / shares, tile_end = tiles * (share + 1) / shares;
  Packed<T>* const panel = reinterpret_cast<Packed<T>*>(scratch);
  Packed<T>* const columns = panel + block * W;
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    const int64_t here = rows - begin < kBlockRows ? rows - begin : kBlockRows;
    auto every_tile = [&](int64_t from, int64_t to, auto&& body) {
      int64_t number = 0;
      for (int64_t f = 0; f < count; f++)
        for (int64_t first = 0; first < factors[f].width; first += kRows, number++)
          if (number >= from && number < to) body(factors[f], first, number);
    };
    auto place_of = [&](int64_t number) { return columns + number * block * kRows; };
    every_tile(own ? 0 : tile_begin, own ? tiles : tile_end, [&](const Factor<T>& factor, int64_t first, int64_t number) {
      Factor<T> later = factor;
      if (later.left) later.left += begin * later.apart;
      pack_columns(here, later, first, place_of(number));
      if (factor.totals && number >= tile_begin && number < tile_end)
        add_columns(Summing<T>::packed_rows(here), place_of(number), width_of(factor, first), begin > 0,
                    factor.totals + first);
    });
    auto every_panel = [&](int64_t from, int64_t to, int64_t first_tile, int64_t last_tile) {
      for (int64_t p = from; p < to; p++) {
        const int64_t used = width - p * W < W ? width - p * W : W;
        pack_panel(here, used, right + begin * right_apart + p * W, right_apart, int64_t(1), panel);
        every_tile(first_tile, last_tile, [&](const Factor<T>& factor, int64_t first, int64_t number) {
          sum_tile_of<kRows>(width_of(factor, first), Summing<T>::packed_rows(here), place_of(number), panel, begin > 0,
                             factor.out + first * width + p * W, width, used);
        });
      }
    };
    every_panel(own * share, own * (share + 1), 0, tiles);
    every_panel(own * shares, panels, tile_begin, tile_end);
  }
}

// Bytes of scratch that a worker needs for that.
template <typename T> int64_t sum_scratch(const Sums<T>& sums) {
  int64_t tiles = 0;
  for (int64_t f = 0; f < sums.count; f++) tiles += (sums.factors[f].width + kRows - 1) / kRows;
  const int64_t entries = kPanel<Sum<T>> + tiles * kRows;
  return Summing<T>::packed_rows(kBlockRows) * entries * static_cast<int64_t>(sizeof(Packed<T>));
}

}  // namespace unspool
