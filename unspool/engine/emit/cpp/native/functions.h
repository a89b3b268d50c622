// Functions of one number that a compiler can run on many at once: no branches, no tables, no calls.
//
// Largest errors against float64 (float) and 80-bit (double) results are stated in docs/engine.md and held by a test.
// NaN stays NaN, infinities go where the limits are.
#pragma once

#include <stdint.h>

namespace unspool {

// Libm's functions by their builtin names, in both widths. No header of the standard library is included here or in
// loop.h: <cmath> alone takes longer to parse than most modules take to compile, and every new cell waits for that.
#define UNSPOOL_OF_ONE(name)                                    \
  inline float name(float x) { return __builtin_##name##f(x); } \
  inline double name(double x) { return __builtin_##name(x); }
#define UNSPOOL_OF_TWO(name)                                                \
  inline float name(float x, float y) { return __builtin_##name##f(x, y); } \
  inline double name(double x, double y) { return __builtin_##name(x, y); }

// What texts of operations call besides the functions below. CUDA has all of them under the same names, in
// emit/cuda/functions.h.
UNSPOOL_OF_ONE(acos)
UNSPOOL_OF_ONE(acosh)
UNSPOOL_OF_ONE(asin)
UNSPOOL_OF_ONE(asinh)
UNSPOOL_OF_ONE(atan)
UNSPOOL_OF_TWO(atan2)
UNSPOOL_OF_ONE(atanh)
UNSPOOL_OF_ONE(cbrt)
UNSPOOL_OF_ONE(ceil)
UNSPOOL_OF_TWO(copysign)
UNSPOOL_OF_ONE(cos)
UNSPOOL_OF_ONE(cosh)
UNSPOOL_OF_ONE(erf)
UNSPOOL_OF_ONE(erfc)
UNSPOOL_OF_ONE(exp2)
UNSPOOL_OF_ONE(fabs)
UNSPOOL_OF_ONE(floor)
UNSPOOL_OF_TWO(fmod)
UNSPOOL_OF_TWO(hypot)
UNSPOOL_OF_ONE(log10)
UNSPOOL_OF_ONE(log2)
UNSPOOL_OF_ONE(nearbyint)
UNSPOOL_OF_TWO(pow)
UNSPOOL_OF_ONE(sin)
UNSPOOL_OF_ONE(sinh)
UNSPOOL_OF_ONE(sqrt)
UNSPOOL_OF_ONE(tan)
UNSPOOL_OF_ONE(trunc)

constexpr double infinity = __builtin_huge_val(), not_a_number = __builtin_nan("");

template <typename T> struct Format;

template <> struct Format<float> {
  using Bits = int32_t;
  using Unsigned = uint32_t;
  static constexpr int mantissa = 23, bias = 127, exp_terms = 7, log_terms = 5;
  static constexpr float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  static constexpr float log2e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr float largest = 89.0f, smallest = -104.0f, tiny = 1.17549435e-38f, unit = 16777216.0f;
  static constexpr int unit_exponent = 24;
};

template <> struct Format<double> {
  using Bits = int64_t;
  using Unsigned = uint64_t;
  static constexpr int mantissa = 52, bias = 1023, exp_terms = 13, log_terms = 11;
  static constexpr double shift = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double log2e = 1.4426950408889634, ln2_high = 0.693147180369123816490,
                          ln2_low = 1.90821492927058770002e-10;
  static constexpr double largest = 710.0, smallest = -746.0, tiny = 2.2250738585072014e-308,
                          unit = 18014398509481984.0;
  static constexpr int unit_exponent = 54;
};

template <typename To, typename From> inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

// The bits of `n` where those of an exponent are; it may be negative, or of a NaN, and then nobody looks at the result.
template <typename T> inline typename Format<T>::Bits in_exponent(typename Format<T>::Bits n) {
  using Bits = typename Format<T>::Bits;
  return static_cast<Bits>(static_cast<typename Format<T>::Unsigned>(n) << Format<T>::mantissa);
}

// 2^n, for n in the range of normal numbers.
template <typename T> inline T power_of_two(typename Format<T>::Bits n) {
  return bits_as<T>(in_exponent<T>(n + Format<T>::bias));
}

constexpr double factorial(int k) { return k < 2 ? 1 : k * factorial(k - 1); }

// e^r - 1 for |r| <= ln(2) / 2: r + r^2 (1/2! + r (1/3! + r (...))), a Taylor series from its smallest term.
template <typename T> inline T small_expm1(T r) {
  T sum = T(1 / factorial(Format<T>::exp_terms));
  for (int k = Format<T>::exp_terms - 1; k >= 2; k--) sum = sum * r + T(1 / factorial(k));
  return r + r * r * sum;
}

template <typename T> struct Reduced {
  T rest;                           // x - n ln(2)
  typename Format<T>::Bits n;       // the integer nearest to x / ln(2)
};

template <typename T> inline Reduced<T> reduce(T x) {
  using F = Format<T>;
  const T shifted = x * F::log2e + F::shift, n = shifted - F::shift;
  using Bits = typename F::Bits;
  return {(x - n * F::ln2_high) - n * F::ln2_low, bits_as<Bits>(shifted) - bits_as<Bits>(F::shift)};
}

template <typename T> inline T exp(T x) {
  using F = Format<T>;
  x = x > F::largest ? F::largest : x;
  x = x < F::smallest ? F::smallest : x;
  const Reduced<T> r = reduce(x);
  const auto half = r.n >> 1;  // in two steps, since 2^n alone may overflow or be subnormal
  return (1 + small_expm1(r.rest)) * power_of_two<T>(half) * power_of_two<T>(r.n - half);
}

// e^x - 1 for 0 <= x <= 40.
template <typename T> inline T positive_expm1(T x) {
  const Reduced<T> r = reduce(x);
  const T scale = power_of_two<T>(r.n);
  return scale * small_expm1(r.rest) + (scale - 1);
}

template <typename T> inline T tanh(T x) {
  T twice = 2 * fabs(x);
  twice = twice > 40 ? T(40) : twice;
  const T e = positive_expm1(twice);
  return copysign(e / (e + 2), x);
}

template <typename T> inline T sigmoid(T x) {
  using F = Format<T>;
  T power = -x;  // of e: where 2^n would be subnormal, a little more than nothing is added to 1
  power = power > F::largest ? F::largest : power;
  power = power < -F::largest + 2 ? -F::largest + 2 : power;
  const Reduced<T> r = reduce(power);
  return 1 / (1 + (1 + small_expm1(r.rest)) * power_of_two<T>(r.n));
}

template <typename T> inline T log(T x) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  const bool subnormal = x < F::tiny;
  const Bits bits = bits_as<Bits>(subnormal ? x * F::unit : x);
  // The exponent n for which m = x / 2^n is nearest to 1: between sqrt(1/2) and sqrt(2).
  const Bits root = bits_as<Bits>(T(0.70710678118654752440));
  const Bits n = (bits - root) >> F::mantissa;
  const T m = bits_as<T>(bits - in_exponent<T>(n));
  const T s = (m - 1) / (m + 1), square = s * s;
  T sum = T(1) / (2 * F::log_terms + 1);  // atanh(s) / s
  for (int k = F::log_terms - 1; k > 0; k--) sum = T(1) / (2 * k + 1) + square * sum;
  const T exponent = T(n - (subnormal ? F::unit_exponent : 0));
  const T f = m - 1, half = T(0.5) * f * f;  // log(m) = f - (f^2/2 - s (f^2/2 + 2 s^2 sum))
  T result = exponent * F::ln2_high - ((half - (s * (half + 2 * square * sum) + exponent * F::ln2_low)) - f);
  result = x == 0 ? -infinity : result;
  result = x < 0 ? T(not_a_number) : result;
  return x == T(infinity) || x != x ? x : result;
}

template <typename T> inline T log1p(T x) {
  const T y = 1 + x;
  const T rounding = y == T(infinity) ? T(0) : (x - (y - 1)) / y;
  const T result = y == 0 ? T(-infinity) : log(y) + rounding;
  return x == 0 ? x : result;  // with its sign
}

template <typename T> inline T expm1(T x) {
  const T size = fabs(x);
  const Reduced<T> r = reduce(size > 1 ? T(0) : x);
  const T scale = power_of_two<T>(r.n);
  const T near_zero = scale * small_expm1(r.rest) + (scale - 1);
  const T result = size > 1 || x != x ? exp(x) - 1 : near_zero;
  return x == 0 ? x : result;  // with its sign
}

// What is left of a division whose quotient is rounded down: it has the divisor's sign.
template <typename T> inline T modulo(T a, T b) {
  const T rest = fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// A quotient that is rounded down: from what is left of the division, since the quotient itself may round up.
template <typename T> inline T floor_divide(T a, T b) {
  const T rest = fmod(a, b);
  const T quotient = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0) ? 1 : 0), down = floor(quotient);
  const T result = quotient - down > T(0.5) ? down + 1 : down;
  return b == 0 ? a / b : quotient == 0 ? copysign(T(0), a / b) : result;
}

// 0 for NaN, as torch has it.
template <typename T> inline T sign(T x) { return T((x > 0) - (x < 0)); }

// Whether a number comes before the largest so far: NaN is larger than any, and of equals the first counts.
template <typename T> inline bool exceeds(T x, T largest) { return x > largest || (x != x && largest == largest); }

// The same of the smallest so far; and, where of equals the last counts, of both.
template <typename T> inline bool falls_below(T x, T least) { return x < least || (x != x && least == least); }
template <typename T> inline bool reaches(T x, T largest) { return x != x || (largest == largest && x >= largest); }
template <typename T> inline bool reaches_down(T x, T least) { return x != x || (least == least && x <= least); }

// Where the largest of some numbers is. Most of them are only compared, many at a time, with the largest so far.
template <typename T> inline int64_t argmax(const T* numbers, int64_t count) {
  constexpr int64_t kBlock = 64;
  int64_t where = 0;
  T largest = numbers[0];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = begin + kBlock < count ? begin + kBlock : count;
    int any = 0;
    #pragma omp simd reduction(| : any)
    for (int64_t i = begin; i < end; i++) any |= exceeds(numbers[i], largest);
    for (int64_t i = begin; any && i < end; i++)
      if (exceeds(numbers[i], largest)) {
        where = i;
        largest = numbers[i];
      }
  }
  return where;
}

// The larger and the smaller of two; NaN if either is.
template <typename T> inline T larger(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> inline T smaller(T a, T b) { return a < b || a != a ? a : b; }

// Loops that fold by these may do so with many elements at once.
#pragma omp declare reduction(larger : float, double, bool, uint8_t, int8_t, int16_t, int32_t, int64_t \
                              : omp_out = unspool::larger(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#pragma omp declare reduction(smaller : float, double, bool, uint8_t, int8_t, int16_t, int32_t, int64_t \
                              : omp_out = unspool::smaller(omp_out, omp_in)) initializer(omp_priv = omp_orig)

// log(e^a + e^b).
template <typename T> inline T log_add_exp(T a, T b) {
  const T top = larger(a, b), apart = smaller(a, b) - top;
  return a == b && fabs(a) == T(infinity) ? a : top + log1p(exp(apart));
}

// A number within bounds; NaN if it or a bound is, and itself, with its sign, if it equals one.
template <typename T> inline T at_least(T x, T low) { return x < low || low != low ? low : x; }
template <typename T> inline T at_most(T x, T high) { return x > high || high != high ? high : x; }

}  // namespace unspool
