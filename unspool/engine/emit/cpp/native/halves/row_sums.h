// Products of halves that sum over rows: gradients of weights, in float32.
#pragma once

#include "../row_sums.h"
#include "products.h"

namespace unspool {

// Pairs are of neighbouring rows.
template <typename T> struct HalfSums {
  using Sum = float;
  using Packed = HalfPanel<T>;
  static int64_t packed_rows(int64_t rows) { return kInPairs<T> ? pairs_of(rows) : rows; }
};
template <> struct Summing<bfloat16> : HalfSums<bfloat16> {};
template <> struct Summing<float16> : HalfSums<float16> {};

// A number of a factor, or nothing.
template <typename T> inline T number_of(int64_t rows, const Factor<T>& factor, int64_t r, int64_t column) {
  if (r >= rows || column >= factor.width) return T(0);
  return factor.left ? factor.left[r * factor.apart + column] : T(1);
}

template <typename T> void pack_columns(int64_t rows, const Factor<T>& factor, int64_t first, Pair* columns) {
  const bool whole = factor.left && factor.width - first >= kRows;
  for (int64_t r = 0; r < rows; r += 2, columns += kRows) {
    if (whole && r + 1 < rows) {
      const T *const one = factor.left + r * factor.apart + first, *const other = one + factor.apart;
      #pragma omp simd
      for (int64_t m = 0; m < kRows; m++) columns[m].put(one[m], other[m]);
    } else {
      for (int64_t m = 0; m < kRows; m++)
        columns[m].put(number_of(rows, factor, r, first + m), number_of(rows, factor, r + 1, first + m));
    }
  }
}

template <typename T> void pack_columns(int64_t rows, const Factor<T>& factor, int64_t first, float* columns) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t m = 0; m < kRows; m++) columns[r * kRows + m] = number_of(rows, factor, r, first + m);
}

#if defined(__AVX512BF16__)
inline float in_total(const Pair& entry) {
  const uint32_t both[] = {entry.both << 16, entry.both & 0xffff0000u};
  float numbers[2];
  std::memcpy(numbers, both, sizeof numbers);
  return numbers[0] + numbers[1];
}

template <int M>
[[gnu::always_inline]] inline void sum_rows(int64_t pairs, const Pair* columns, const Pair* panel,
                                            Vector<float>::Type (&sums)[M][kVectors]) {
  constexpr int64_t L = kLanes<float>, W = kPanel<float>;
  for (int64_t r = 0; r < pairs; r++) {
    __m512bh right[kVectors];
    for (int v = 0; v < kVectors; v++) right[v] = (__m512bh)_mm512_loadu_si512(panel + r * W + v * L);
    for (int m = 0; m < M; m++) {
      const __m512bh left = (__m512bh)_mm512_set1_epi32(static_cast<int>(columns[r * kRows + m].both));
      for (int v = 0; v < kVectors; v++)
        sums[m][v] = (Vector<float>::Type)_mm512_dpbf16_ps((__m512)sums[m][v], left, right[v]);
    }
  }
}
#endif

}  // namespace unspool
