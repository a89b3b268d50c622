// Products of rows of halves by a matrix that stays the same for many steps, summed in float32.
//
// Where the processor has instructions for bfloat16, the matrix is packed in pairs: two entries of a column, which are
// multiplied with two of a row and added to a sum by one instruction, so that a product takes half the time of one in
// float32. Else the matrix is packed as float32, and a few rows at a time become float32.
#pragma once

#if defined(__AVX512BF16__) || defined(__F16C__)
#include <immintrin.h>
#endif

#include <type_traits>

#include "../loop.h"
#include "../products.h"
#include "numbers.h"

namespace unspool {

// Whether numbers of a type are multiplied in pairs.
template <typename T> constexpr bool kInPairs = false;
#if defined(__AVX512BF16__)
template <> constexpr bool kInPairs<bfloat16> = true;
#endif

inline int64_t pairs_of(int64_t count) { return (count + 1) / 2; }

// Bytes of a panel of a packed matrix.
template <typename T> int64_t panel_bytes(int64_t depth) {
  return (kInPairs<T> ? pairs_of(depth) : depth) * kPanel<float> * static_cast<int64_t>(sizeof(float));
}

// Two numbers side by side.
struct Pair {
  uint32_t both;
  template <typename T> void put(const T& first, const T& second) {
    both = first.bits | static_cast<uint32_t>(second.bits) << 16;
  }
};

// What a matrix is packed as.
template <typename T> using HalfPanel = std::conditional_t<kInPairs<T>, Pair, float>;

// One panel, `used` columns wide, zeros beside them: in pairs down its columns, the last one with a zero if need be.
template <typename T>
void pack_panel(int64_t depth, int64_t used, const T* matrix, int64_t down, int64_t right, Pair* panel) {
  constexpr int64_t W = kPanel<float>, kBlock = 16;
  const int64_t whole = depth / 2;
  if (used < W) std::memset(panel, 0, pairs_of(depth) * W * sizeof(Pair));
  if (right == 1 && used == W) {
    for (int64_t k = 0; k < whole; k++) {
      const T *const first = matrix + 2 * k * down, *const second = first + down;
      #pragma omp simd
      for (int64_t j = 0; j < W; j++) panel[k * W + j].put(first[j], second[j]);
    }
  } else {
    for (int64_t begin = 0; begin < whole; begin += kBlock) {  // few cache lines at a time
      const int64_t end = begin + kBlock < whole ? begin + kBlock : whole;
      for (int64_t j = 0; j < used; j++)
        for (int64_t k = begin; k < end; k++)
          panel[k * W + j].put(matrix[2 * k * down + j * right], matrix[(2 * k + 1) * down + j * right]);
    }
  }
  if (depth % 2)
    for (int64_t j = 0; j < used; j++) panel[whole * W + j].put(matrix[(depth - 1) * down + j * right], T(0));
}

// Numbers as float32, and float32 as numbers; float16 has instructions that compilers do not find by themselves.
template <typename T> inline void widen(const T* from, float* to, int64_t count) {
  for (int64_t k = 0; k < count; k++) to[k] = from[k];
}
template <typename T> inline void narrow(const float* from, T* to, int64_t count) {
  for (int64_t k = 0; k < count; k++) to[k] = from[k];
}
#if defined(__F16C__)
template <> inline void widen(const float16* from, float* to, int64_t count) {
  int64_t k = 0;
  for (; k + 8 <= count; k += 8)
    _mm256_storeu_ps(to + k, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k))));
  for (; k < count; k++) to[k] = from[k];
}
template <> inline void narrow(const float* from, float16* to, int64_t count) {
  int64_t k = 0;
  for (; k + 8 <= count; k += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + k),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + k), _MM_FROUND_TO_NEAREST_INT));
  for (; k < count; k++) to[k] = from[k];
}
#endif

// One panel as float32.
template <typename T>
void pack_panel(int64_t depth, int64_t used, const T* matrix, int64_t down, int64_t right, float* panel) {
  constexpr int64_t W = kPanel<float>;
  for (int64_t k = 0; k < depth; k++)
    for (int64_t j = 0; j < W; j++) panel[k * W + j] = j < used ? float(matrix[k * down + j * right]) : 0;
}

template <typename T>
void pack_halves(int64_t depth, int64_t width, const T* matrix, int64_t down, int64_t right, char* panels) {
  constexpr int64_t W = kPanel<float>;
  for (int64_t begin = 0; begin < width; begin += W, panels += panel_bytes<T>(depth))
    pack_panel(depth, width - begin < W ? width - begin : W, matrix + begin * right, down, right,
               reinterpret_cast<HalfPanel<T>*>(panels));
}

// A strip of rows as products take it.
template <typename T> struct Strip {
  int64_t depth, width;
  const T* left;
  int64_t left_apart;
  const char* panels;
  Addend added;
  Outcome out;
};

// Calls `body` with where numbers are, as what they are.
template <typename T, typename Place, typename Body> inline void as_stored(const Place& place, int64_t first, Body&& body) {
  using Void = std::remove_pointer_t<decltype(place.numbers)>;
  using Float = std::conditional_t<std::is_const_v<Void>, const float, float>;
  using Half = std::conditional_t<std::is_const_v<Void>, const T, T>;
  if (place.is_float)
    body(static_cast<Float*>(place.numbers) + first);
  else
    body(static_cast<Half*>(place.numbers) + first);
}

// M rows by P panels from the p-th on, of which the last may be less than a whole one.
#if defined(__AVX512BF16__)
inline __m512 read(const bfloat16* from, __mmask16 there) {
  const __m512i numbers = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(numbers, 16));
}
inline __m512 read(const float* from, __mmask16 there) { return _mm512_maskz_loadu_ps(there, from); }
inline void write(__m512 numbers, bfloat16* to, __mmask16 there) {
  _mm256_mask_storeu_epi16(to, there, (__m256i)_mm512_cvtneps_pbh(numbers));
}
inline void write(__m512 numbers, float* to, __mmask16 there) { _mm512_mask_storeu_ps(to, there, numbers); }

template <int M, int P> void half_tile(const Strip<bfloat16>& strip, int64_t p) {
  constexpr int64_t L = kLanes<float>, W = kPanel<float>;
  constexpr int V = P * kVectors;
  const int64_t first = p * W, pairs = pairs_of(strip.depth), whole = strip.depth / 2;
  const auto panels = reinterpret_cast<const Pair*>(strip.panels) + first * pairs;
  __mmask16 there[V];
  for (int v = 0; v < V; v++) {
    const int64_t left = strip.width - first - v * L;
    there[v] = left >= L ? 0xffff : left > 0 ? (1 << left) - 1 : 0;
  }
  __m512 sums[M][V];
  for (int m = 0; m < M; m++)
    for (int v = 0; v < V; v++) sums[m][v] = _mm512_setzero_ps();
  if (strip.added.numbers)
    as_stored<bfloat16>(strip.added, first, [&](auto* added) __attribute__((always_inline)) {
      for (int m = 0; m < M; m++)
        for (int v = 0; v < V; v++) sums[m][v] = read(added + m * strip.added.apart + v * L, there[v]);
    });
  const auto add = [&](int64_t k, auto&& both) __attribute__((always_inline)) {
    __m512bh right[V];
    for (int v = 0; v < V; v++)
      right[v] = (__m512bh)_mm512_loadu_si512(panels + (v / kVectors * pairs + k) * W + v % kVectors * L);
    for (int m = 0; m < M; m++) {
      const __m512bh left = (__m512bh)_mm512_set1_epi32(both(strip.left + m * strip.left_apart + 2 * k));
      for (int v = 0; v < V; v++) sums[m][v] = _mm512_dpbf16_ps(sums[m][v], left, right[v]);
    }
  };
  for (int64_t k = 0; k < whole; k++)
    add(k, [](const bfloat16* left) {
      int both;
      std::memcpy(&both, left, sizeof both);
      return both;
    });
  if (whole < pairs) add(whole, [](const bfloat16* left) { return static_cast<int>(left->bits); });
  as_stored<bfloat16>(strip.out, first, [&](auto* out) __attribute__((always_inline)) {
    for (int m = 0; m < M; m++)
      for (int v = 0; v < V; v++) write(sums[m][v], out + m * strip.out.apart + v * L, there[v]);
  });
}
#endif

template <int M, int P, typename T> void half_tile(const Strip<T>& strip, int64_t p) {
  constexpr int64_t W = kPanel<float>, kBlock = 256;
  for (int64_t one = p; one < p + P; one++) {
    const int64_t first = one * W, used = strip.width - first < W ? strip.width - first : W;
    const auto panel = reinterpret_cast<const float*>(strip.panels) + first * strip.depth;
    alignas(kBytes) float sums[M * W], rows[M * kBlock];
    std::memset(sums, 0, sizeof sums);
    if (strip.added.numbers)
      as_stored<T>(strip.added, first, [&](auto* added) {
        for (int64_t m = 0; m < M; m++) widen(added + m * strip.added.apart, sums + m * W, used);
      });
    for (int64_t begin = 0; begin < strip.depth; begin += kBlock) {
      const int64_t here = strip.depth - begin < kBlock ? strip.depth - begin : kBlock;
      for (int64_t m = 0; m < M; m++) widen(strip.left + m * strip.left_apart + begin, rows + m * kBlock, here);
      tile<float, M, 1, kVectors>(here, rows, kBlock, panel + begin * W, sums, W, sums, W);
    }
    as_stored<T>(strip.out, first, [&](auto* out) {
      for (int64_t m = 0; m < M; m++) narrow(sums + m * W, out + m * strip.out.apart, used);
    });
  }
}

// All rows of a strip, at most M, by the panels from `begin` to `end`.
template <int M, typename T> void half_strip(int64_t rows, const Strip<T>& strip, int64_t begin, int64_t end) {
  if (rows == M) {
    constexpr int P = kPanelsAtOnce<M>;
    int64_t p = begin;
    for (; p + P <= end; p += P) half_tile<M, P>(strip, p);
    if constexpr (P > 1)
      for (; p < end; p++) half_tile<M, 1>(strip, p);
  } else if constexpr (M > 1) {
    half_strip<M - 1>(rows, strip, begin, end);
  }
}

// The rows from `row` on of what is stored.
template <typename T, typename Place> inline Place later(Place place, int64_t row) {
  if (place.numbers) as_stored<T>(place, row * place.apart, [&](auto* numbers) { place.numbers = numbers; });
  return place;
}

template <typename T>
void multiply_halves(int64_t rows, int64_t depth, int64_t width, const T* left, int64_t left_apart, const T* panels,
                     const Addend& added, const Outcome& out, int64_t share, int64_t shares) {
  const int64_t count = panels_of<float>(width), last = count * (share + 1) / shares;
  const int64_t fitting = kCache / panel_bytes<T>(depth);
  const int64_t step = rows <= kRows || fitting > count ? count : fitting < 1 ? 1 : fitting;
  for (int64_t begin = count * share / shares; begin < last; begin += step) {
    const int64_t end = begin + step < last ? begin + step : last;
    in_strips(rows, [&](int64_t row, int64_t here) {
      const Strip<T> strip{depth, width, left + row * left_apart, left_apart, reinterpret_cast<const char*>(panels),
                           later<T>(added, row), later<T>(out, row)};
      half_strip<kRows>(here, strip, begin, end);
    });
  }
}

}  // namespace unspool
