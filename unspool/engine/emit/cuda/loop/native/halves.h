// Functions whose results are halves: far nearer than these are rounded, with neither branches nor exact divisions.
#pragma once

namespace unspool {
namespace halves {

template <typename Half> UNSPOOL_DEVICE float exp(float x) { return approximate_exp(x); }
template <typename Half> UNSPOOL_DEVICE float sigmoid(float x) {
  return approximate_quotient(1.0f, 1.0f + approximate_exp(-x));
}
template <typename Half> UNSPOOL_DEVICE float tanh(float x) {
  const float far = 1.0f - approximate_quotient(2.0f, 1.0f + approximate_exp(2.0f * x));
  const float near = x - x * x * x * (1.0f / 3.0f);  // where `far` is the difference of almost equal numbers
  return -0.04f < x && x < 0.04f ? near : far;
}
template <> UNSPOOL_DEVICE float tanh<bfloat16>(float x) { return approximate_tanh(x); }

}  // namespace halves
}  // namespace unspool
