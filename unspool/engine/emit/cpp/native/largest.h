// Where each row of a product is largest: the most probable token of a vocabulary.
//
// The product itself is not needed, so it is computed a few columns at a time, and nothing is kept of it but the largest
// so far. And with instructions for bfloat16 most of it need not be exact: rounded factors are multiplied, in half the
// time, and by their norms it is known how far an entry may be off. An entry that cannot be the largest is passed over;
// the others, a handful of thousands, are computed from the factors as they are. The result is that of the exact product.
// At worst, where all entries are equal, all are computed so, which takes some three times as long as a plain product.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "loop.h"
#include "products.h"

namespace unspool {

constexpr int64_t kAtOnce = 16;  // panels whose columns are searched at a time

// An exact entry, from several sums that do not wait for each other.
inline float exact_entry(const Search& search, int64_t row, int64_t column) {
  using Vec = Vector<float>::Type;
  constexpr int64_t L = kLanes<float>, kSums = 4;
  const float* const left = search.left + row * search.left_apart;
  const float* const right = search.columns + column * search.depth;
  Vec sums[kSums] = {};
  int64_t k = 0;
  for (; k + kSums * L <= search.depth; k += kSums * L)
    for (int64_t s = 0; s < kSums; s++)
      sums[s] += *reinterpret_cast<const Vec*>(left + k + s * L) * *reinterpret_cast<const Vec*>(right + k + s * L);
  const Vec all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float total = 0;
  for (int64_t l = 0; l < L; l++) total += all[l];
  for (; k < search.depth; k++) total += left[k] * right[k];
  return search.added ? total + search.added[row * search.added_apart + column] : total;
}

// -- exact entries ----------------------------------------------------------------------------------------------------

// Searches rows as they are.
class ExactRows {
 public:
  explicit ExactRows(const Search& search) : search_(search) {}

  // Rows `row` to `row + count`, at most kRows, by the panels from `begin` to `end`.
  void look(int64_t row, int64_t count, int64_t begin, int64_t end, Found* found) const {
    constexpr int64_t W = kPanel<float>;
    alignas(kBytes) float entries[kRows * kAtOnce * W];
    const int64_t first = begin * W, width = (end * W < search_.width ? end * W : search_.width) - first;
    strip_of<float, kRows>(count, search_.depth, width, search_.left + row * search_.left_apart, search_.left_apart,
                           static_cast<const float*>(search_.packed) + begin * search_.depth * W, nullptr, 0, entries,
                           kAtOnce * W, 0, end - begin);
    for (int64_t m = 0; m < count; m++) {
      float* const own = entries + m * kAtOnce * W;
      if (search_.added)
        for (int64_t j = 0; j < width; j++) own[j] += search_.added[(row + m) * search_.added_apart + first + j];
      int any = 0;
      #pragma omp simd reduction(| : any)
      for (int64_t j = 0; j < width; j++) any |= exceeds(own[j], found[m].value);
      for (int64_t j = 0; any && j < width; j++)
        if (exceeds(own[j], found[m].value)) found[m] = {own[j], first + j};
    }
  }

 private:
  const Search& search_;
};

// -- rounded entries --------------------------------------------------------------------------------------------------

#if defined(__AVX512BF16__)
constexpr double kTiny = 0x1p-126;  // what is smaller is 0 to these instructions
constexpr double kHuge = 0x1p60;    // products of what is smaller, and sums of them, do not overflow

// The nearest bfloat16; NaN stays NaN.
inline uint32_t rounded(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Two numbers side by side, as they are multiplied; a last one has a zero beside it.
inline uint32_t rounded_pair(const float* numbers, int64_t k, int64_t count) {
  return rounded(numbers[k]) | (k + 1 < count ? rounded(numbers[k + 1]) << 16 : 0);
}

// A norm that is not too small; infinite where sums may overflow, so that nothing is passed over there.
inline double norm_of(const float* numbers, int64_t count) {
  double squares = 0;
  for (int64_t k = 0; k < count; k++) squares += static_cast<double>(numbers[k]) * numbers[k];
  const double norm = std::sqrt(squares) * (1 + 1e-6);
  return norm < kHuge ? norm : norm != norm ? norm : HUGE_VAL;
}

// How far an entry of the rounded product, s, may be from the exact one, x, both computed in float32 with n = `depth`:
//
//   |s - x| <= (2^-7 + 2^-16 + n 2^-22) |row| |column|  +  2 sqrt(n) kTiny (|row| + |column|)  +  4 n kTiny  +  2^-22 |s|
//
// A number has 8 bits in bfloat16, so it is rounded by 2^-8 of itself at most, and a product of two by 2 2^-8 + 2^-16. The
// sum of all |row[k]| |column[k]| is no larger than the product of the norms; in float32 each of two sums of n terms, in
// whatever order, is off by n 2^-23 of that. A number below kTiny is off by kTiny, and a sum by kTiny at each term. When
// something is added to them, x and s are rounded again. `error_of(row) * norm_for_errors(column)` has the first two terms.
inline double share_of(int64_t depth) { return 0x1p-7 + 0x1p-16 + static_cast<double>(depth) * 0x1p-22; }
inline float error_of(double norm, int64_t depth) {
  return static_cast<float>(share_of(depth) * norm + 2 * std::sqrt(static_cast<double>(depth)) * kTiny);
}
inline float norm_for_errors(double norm, int64_t depth) {
  return static_cast<float>(norm + 2 * std::sqrt(static_cast<double>(depth)) * kTiny / share_of(depth));
}

// M rows by P panels, in pairs of numbers.
template <int M, int P>
inline void rounded_tile(int64_t pairs, const uint32_t* left, const uint32_t* panels, float* out, int64_t out_apart) {
  constexpr int64_t L = kLanes<float>, W = kPanel<float>;
  __m512 sums[M][P * kVectors];
  for (int m = 0; m < M; m++)
    for (int v = 0; v < P * kVectors; v++) sums[m][v] = _mm512_setzero_ps();
  for (int64_t k = 0; k < pairs; k++) {
    __m512bh right[P * kVectors];
    for (int p = 0; p < P; p++)
      for (int v = 0; v < kVectors; v++)
        right[p * kVectors + v] = (__m512bh)_mm512_loadu_si512(panels + (p * pairs + k) * W + v * L);
    for (int m = 0; m < M; m++) {
      const __m512bh both = (__m512bh)_mm512_set1_epi32(static_cast<int>(left[m * pairs + k]));
      for (int v = 0; v < P * kVectors; v++) sums[m][v] = _mm512_dpbf16_ps(sums[m][v], both, right[v]);
    }
  }
  for (int m = 0; m < M; m++)
    for (int v = 0; v < P * kVectors; v++) _mm512_storeu_ps(out + m * out_apart + v * L, sums[m][v]);
}

template <int M>
void rounded_strip(int64_t rows, int64_t pairs, const uint32_t* left, const uint32_t* panels, int64_t count, float* out,
                   int64_t out_apart) {
  constexpr int64_t W = kPanel<float>;
  if (rows == M) {
    constexpr int P = kPanelsAtOnce<M>;
    int64_t p = 0;
    for (; p + P <= count; p += P) rounded_tile<M, P>(pairs, left, panels + p * pairs * W, out + p * W, out_apart);
    for (; p < count; p++) rounded_tile<M, 1>(pairs, left, panels + p * pairs * W, out + p * W, out_apart);
  } else if constexpr (M > 1) {
    rounded_strip<M - 1>(rows, pairs, left, panels, count, out, out_apart);
  }
}

// Searches rows in pairs of rounded numbers.
class RoundedRows {
 public:
  static int64_t pairs_of(int64_t depth) { return (depth + 1) / 2; }

  // What is kept of a row, in bytes: its pairs and two numbers.
  static int64_t bytes_of(int64_t depth) { return (pairs_of(depth) + 2) * static_cast<int64_t>(sizeof(float)); }

  RoundedRows(int64_t rows, const Search& search, char* scratch)
      : search_(search), pairs_(pairs_of(search.depth)), errors_(reinterpret_cast<float*>(scratch)),
        least_(errors_ + rows), left_(reinterpret_cast<uint32_t*>(least_ + rows)) {
    for (int64_t r = 0; r < rows; r++) {
      const float* const own = search.left + r * search.left_apart;
      errors_[r] = error_of(norm_of(own, search.depth), search.depth);
      least_[r] = -HUGE_VALF;
      for (int64_t k = 0; k < pairs_; k++) left_[r * pairs_ + k] = rounded_pair(own, 2 * k, search.depth);
    }
  }

  void look(int64_t row, int64_t count, int64_t begin, int64_t end, Found* found) const {
    constexpr int64_t L = kLanes<float>, W = kPanel<float>;
    alignas(kBytes) float entries[kRows * kAtOnce * W];
    const int64_t first = begin * W, width = (end * W < search_.width ? end * W : search_.width) - first;
    const float* const norms = static_cast<const float*>(search_.packed);
    const uint32_t* const panels = static_cast<const uint32_t*>(search_.packed) + panels_of<float>(search_.width) * W;
    rounded_strip<kRows>(count, pairs_, left_ + row * pairs_, panels + begin * pairs_ * W, end - begin, entries,
                         kAtOnce * W);
    const __m512 part = _mm512_set1_ps(0x1p-22f), tiny = _mm512_set1_ps(static_cast<float>(4 * search_.depth * kTiny));
    for (int64_t m = 0; m < count; m++) {
      float* const own = entries + m * kAtOnce * W;
      float& least = least_[row + m];  // what the largest entry is at least
      const float* const added = search_.added ? search_.added + (row + m) * search_.added_apart + first : nullptr;
      const __m512 error = _mm512_set1_ps(errors_[row + m]);
      __m512 reached = _mm512_set1_ps(least);
      for (int64_t j = 0; j < width; j += L) {
        const __mmask16 there = inside(width - j);
        __m512 entry = _mm512_loadu_ps(own + j);
        if (added) entry = _mm512_add_ps(entry, _mm512_maskz_loadu_ps(there, added + j));
        const __m512 small = _mm512_fmadd_ps(_mm512_abs_ps(entry), part, tiny);
        const __m512 off = _mm512_fmadd_ps(error, _mm512_loadu_ps(norms + first + j), small);
        _mm512_storeu_ps(own + j, _mm512_add_ps(entry, off));  // what it is at most
        reached = _mm512_mask_max_ps(reached, there, _mm512_sub_ps(entry, off), reached);  // which NaN leaves as it is
      }
      least = _mm512_reduce_max_ps(reached);
      for (int64_t j = 0; j < width; j += L) {
        const __m512 most = _mm512_loadu_ps(own + j);
        __mmask16 open = _mm512_mask_cmp_ps_mask(inside(width - j), most, _mm512_set1_ps(least), _CMP_NLT_UQ);
        for (; open; open &= open - 1) {
          const int64_t column = first + j + __builtin_ctz(open);
          const float exact = exact_entry(search_, row + m, column);
          if (exceeds(exact, found[m].value)) found[m] = {exact, column};
          if (exact > least) least = exact;
        }
      }
    }
  }

 private:
  static __mmask16 inside(int64_t left) { return left < kLanes<float> ? (1 << left) - 1 : 0xffff; }

  const Search& search_;
  const int64_t pairs_;
  float* const errors_;
  float* const least_;
  uint32_t* const left_;
};
#endif

// -- both -------------------------------------------------------------------------------------------------------------

// Whether rounded numbers are searched: where there are enough columns for most of them to be passed over.
inline bool is_rounded(int64_t width) {
#if defined(__AVX512BF16__)
  return width >= 256;
#else
  return false;
#endif
}

// A packed matrix in bytes, and what a search needs for a row.
inline int64_t search_bytes(int64_t depth, int64_t width) {
  const int64_t padded = panels_of<float>(width) * kPanel<float>;
#if defined(__AVX512BF16__)
  if (is_rounded(width)) return padded * (RoundedRows::pairs_of(depth) + 1) * static_cast<int64_t>(sizeof(float));
#endif
  return padded * depth * static_cast<int64_t>(sizeof(float));
}
inline int64_t search_scratch([[maybe_unused]] int64_t depth) {
#if defined(__AVX512BF16__)
  return RoundedRows::bytes_of(depth);
#else
  return 0;
#endif
}

// A matrix, given by its columns one after another, as a search reads it: in panels, or its norms and panels of pairs.
inline void pack_search(int64_t depth, int64_t width, const float* columns, void* packed) {
#if defined(__AVX512BF16__)
  if (is_rounded(width)) {
    constexpr int64_t W = kPanel<float>;
    const int64_t pairs = RoundedRows::pairs_of(depth), padded = panels_of<float>(width) * W;
    std::memset(packed, 0, search_bytes(depth, width));
    float* const norms = static_cast<float*>(packed);
    for (int64_t column = 0; column < width; column++) {
      const float* const own = columns + column * depth;
      norms[column] = norm_for_errors(norm_of(own, depth), depth);
      uint32_t* const place = static_cast<uint32_t*>(packed) + padded + column / W * pairs * W + column % W;
      for (int64_t k = 0; k < pairs; k++) place[k * W] = rounded_pair(own, 2 * k, depth);
    }
    return;
  }
#endif
  pack<float>(depth, width, columns, 1, depth, static_cast<float*>(packed));
}

// By the rows of one kind, the largest entry of each in a share of the columns.
template <typename Rows>
void search_by(const Rows& by, int64_t rows, int64_t width, int64_t share, int64_t shares, Found* found) {
  const int64_t count = panels_of<float>(width), first = count * share / shares, last = count * (share + 1) / shares;
  for (int64_t r = 0; r < rows; r++) found[r] = {-HUGE_VALF, first * kPanel<float>};
  for (int64_t begin = first; begin < last; begin += kAtOnce) {
    const int64_t end = begin + kAtOnce < last ? begin + kAtOnce : last;
    in_strips(rows, [&](int64_t row, int64_t count) { by.look(row, count, begin, end, found + row); });
  }
}

inline void search_share(int64_t rows, const Search& search, char* scratch, int64_t share, int64_t shares, Found* found) {
#if defined(__AVX512BF16__)
  if (is_rounded(search.width))
    return search_by(RoundedRows(rows, search, scratch), rows, search.width, share, shares, found);
#endif
  search_by(ExactRows(search), rows, search.width, share, shares, found);
}

}  // namespace unspool
