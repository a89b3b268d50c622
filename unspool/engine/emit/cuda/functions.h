// The functions that texts of operations call, for CUDA: the names of emit/cpp/functions.h, by CUDA's own functions.
extern "C++" {
namespace unspool {

#define UNSPOOL_OF_ONE(name) \
  template <typename T> __device__ __forceinline__ T name(T x) { return ::name(x); }
#define UNSPOOL_OF_TWO(name) \
  template <typename T> __device__ __forceinline__ T name(T x, T y) { return ::name(x, y); }

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
UNSPOOL_OF_ONE(exp)
UNSPOOL_OF_ONE(exp2)
UNSPOOL_OF_ONE(expm1)
UNSPOOL_OF_ONE(fabs)
UNSPOOL_OF_ONE(floor)
UNSPOOL_OF_TWO(fmod)
UNSPOOL_OF_TWO(hypot)
UNSPOOL_OF_ONE(log)
UNSPOOL_OF_ONE(log10)
UNSPOOL_OF_ONE(log1p)
UNSPOOL_OF_ONE(log2)
UNSPOOL_OF_ONE(nearbyint)
UNSPOOL_OF_TWO(pow)
UNSPOOL_OF_ONE(sin)
UNSPOOL_OF_ONE(sinh)
UNSPOOL_OF_ONE(sqrt)
UNSPOOL_OF_ONE(tan)
UNSPOOL_OF_ONE(tanh)
UNSPOOL_OF_ONE(trunc)

#undef UNSPOOL_OF_ONE
#undef UNSPOOL_OF_TWO

template <typename T> __device__ __forceinline__ T sigmoid(T x) { return T(1) / (T(1) + ::exp(-x)); }

// What is left of a division whose quotient is rounded down: it has the divisor's sign.
template <typename T> __device__ __forceinline__ T modulo(T a, T b) {
  const T rest = ::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// A quotient that is rounded down: from what is left of the division, since the quotient itself may round up.
template <typename T> __device__ __forceinline__ T floor_divide(T a, T b) {
  const T rest = ::fmod(a, b);
  const T quotient = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0) ? 1 : 0), down = ::floor(quotient);
  const T result = quotient - down > T(0.5) ? down + 1 : down;
  return b == 0 ? a / b : quotient == 0 ? ::copysign(T(0), a / b) : result;
}

// 0 for NaN, as torch has it.
template <typename T> __device__ __forceinline__ T sign(T x) { return T((x > 0) - (x < 0)); }

// Whether a number comes before the largest, or the smallest, so far: NaN does, and of equals the first counts.
template <typename T> __device__ __forceinline__ bool exceeds(T x, T most) { return x > most || (x != x && most == most); }
template <typename T> __device__ __forceinline__ bool falls_below(T x, T least) {
  return x < least || (x != x && least == least);
}
// The same where of equals the last counts.
template <typename T> __device__ __forceinline__ bool reaches(T x, T most) { return x != x || (most == most && x >= most); }
template <typename T> __device__ __forceinline__ bool reaches_down(T x, T least) {
  return x != x || (least == least && x <= least);
}

// The larger and the smaller of two; NaN if either is.
template <typename T> __device__ __forceinline__ T larger(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> __device__ __forceinline__ T smaller(T a, T b) { return a < b || a != a ? a : b; }

// log(e^a + e^b).
template <typename T> __device__ __forceinline__ T log_add_exp(T a, T b) {
  const T top = larger(a, b), apart = smaller(a, b) - top;
  return a == b && ::fabs(a) == T(1) / T(0) ? a : top + ::log1p(::exp(apart));
}

// A number within bounds; NaN if it or a bound is, and itself, with its sign, if it equals one.
template <typename T> __device__ __forceinline__ T at_least(T x, T low) { return x < low || low != low ? low : x; }
template <typename T> __device__ __forceinline__ T at_most(T x, T high) { return x > high || high != high ? high : x; }

}  // namespace unspool
}
