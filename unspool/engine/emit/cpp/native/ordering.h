// Places of numbers in their order, as torch has it on a CPU: NaN is larger than any number.
#pragma once

#include <algorithm>
#include <cstdint>

namespace unspool {

template <bool descending, typename T> inline bool comes_before(T a, T b) {
  return descending ? (a != a && b == b) || a > b : (a == a && b != b) || a < b;
}

// All places; equal numbers stay in their order.
template <bool descending, typename T>
inline void order(const T* numbers, int64_t apart, int64_t count, int64_t* places) {
  for (int64_t i = 0; i < count; i++) places[i] = i;
  std::sort(places, places + count, [=](int64_t i, int64_t j) {
    const T a = numbers[i * apart], b = numbers[j * apart];
    return comes_before<descending>(a, b) || (!comes_before<descending>(b, a) && i < j);
  });
}

// The first places, in order or in any. Which of equal numbers are among them is what torch's way to find them says.
template <bool descending, typename T>
inline void order_first(const T* numbers, int64_t apart, int64_t count, int64_t first, bool in_order, int64_t* places) {
  for (int64_t i = 0; i < count; i++) places[i] = i;
  if (first == 0) return;
  const auto before = [=](int64_t i, int64_t j) {
    return comes_before<descending>(numbers[i * apart], numbers[j * apart]);
  };
  if (first * 64 <= count) {
    std::partial_sort(places, places + first, places + count, before);
  } else {
    std::nth_element(places, places + first - 1, places + count, before);
    if (in_order) std::sort(places, places + first - 1, before);
  }
}

}  // namespace unspool
