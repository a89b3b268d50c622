// Folds over the elements of a row by several lanes, and orders. Written with device.h and steps.h alone.
#pragma once

namespace unspool {

struct Sum {
  template <typename T> UNSPOOL_DEVICE static T meet(T a, T b) { return a + b; }
};
struct Prod {
  template <typename T> UNSPOOL_DEVICE static T meet(T a, T b) { return a * b; }
};
struct Max {
  template <typename T> UNSPOOL_DEVICE static T meet(T a, T b) { return larger(a, b); }
};
struct Min {
  template <typename T> UNSPOOL_DEVICE static T meet(T a, T b) { return smaller(a, b); }
};

template <typename T> UNSPOOL_DEVICE T exchange(T x, int mask) {  // all lanes; numbers of any size
  if constexpr (sizeof(T) < 4) return T(shuffle_xor(int(x), mask));
  else return shuffle_xor(x, mask);
}

// All lanes of each `lanes` neighbours get what they fold to, in a fixed order; all lanes.
template <typename How, int lanes, typename T> UNSPOOL_DEVICE T fold(T x) {
#pragma unroll
  for (int apart = lanes / 2; apart > 0; apart /= 2) x = How::meet(x, exchange(x, apart));
  return x;
}

// What other blocks have folded, word by word: a number of each.
template <int bytes> struct BitsOf { using Type = uint32_t; };
template <> struct BitsOf<8> { using Type = uint64_t; };
template <typename T> struct Posted : Word<typename BitsOf<sizeof(T)>::Type> {
  UNSPOOL_DEVICE Posted(const T* at) : Word<typename BitsOf<sizeof(T)>::Type>{at, 0} {}
  UNSPOOL_DEVICE T number() const { return bits_as<T>(this->bits); }
};

// The place of the best of several lanes; of equals, the first. `better(x, y)`: whether x comes before y; all lanes.
template <int lanes, typename T, typename Better>
UNSPOOL_DEVICE int64_t fold_places(T best, int64_t where, Better better) {
#pragma unroll
  for (int apart = lanes / 2; apart > 0; apart /= 2) {
    const T other = exchange(best, apart);
    const int64_t there = exchange(where, apart);
    const bool same = !better(other, best) && !better(best, other);
    if (better(other, best) || (same && there < where)) best = other, where = there;
  }
  return where;
}

template <bool descending, typename T> UNSPOOL_DEVICE bool comes_before(T a, T b) {
  return descending ? (a != a && b == b) || a > b : (a == a && b != b) || a < b;
}

// The places of numbers in their order, NaN larger than any; equals stay in theirs. `count` is small.
template <bool descending, typename T>
UNSPOOL_DEVICE void order(const T* numbers, int apart, int count, int64_t* places) {
  for (int i = 0; i < count; i++) {
    int at = i;
    for (; at > 0 && comes_before<descending>(numbers[i * apart], numbers[places[at - 1] * apart]); at--)
      places[at] = places[at - 1];
    places[at] = i;
  }
}

}  // namespace unspool
