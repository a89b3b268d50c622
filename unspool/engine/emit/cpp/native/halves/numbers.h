// bfloat16 and float16: numbers of two bytes in memory, float32 as soon as something is computed.
//
// Conversions are arithmetic on bits without branches, so that a compiler runs them on many elements at once. They round
// to the nearest, of two to the even one; NaN stays NaN, and what is too large becomes infinite.
#pragma once

#include "../functions.h"

namespace unspool {

// What is stored of a number. Assignments are written out: of structures that are copied whole, compilers make no vectors.
#define UNSPOOL_HALF(name)                                             \
  struct name {                                                        \
    uint16_t bits;                                                     \
    name() = default;                                                  \
    name(float x) : bits(rounded(x)) {}                                \
    name(const name& other) : bits(other.bits) {}                      \
    name& operator=(float x) { return bits = rounded(x), *this; }      \
    name& operator=(const name& other) { return bits = other.bits, *this; } \
    name& operator+=(float x) { return *this = float(*this) + x; }     \
    operator float() const;                                            \
    static uint16_t rounded(float x);                                  \
  };
UNSPOOL_HALF(bfloat16)
UNSPOOL_HALF(float16)

// The upper half of a float32.
inline uint16_t bfloat16::rounded(float x) {
  const uint32_t whole = bits_as<uint32_t>(x);
  return static_cast<uint16_t>(x != x ? 0x7fc0 : (whole + 0x7fff + (whole >> 16 & 1)) >> 16);
}
inline bfloat16::operator float() const { return bits_as<float>(static_cast<uint32_t>(bits) << 16); }

// An exponent of 5 bits with a bias of 15, not 127, and 10 bits of a mantissa, not 23.
inline uint16_t float16::rounded(float x) {
  constexpr uint32_t kSmallest = 113u << 23;   // 2^-14: what is smaller is subnormal
  constexpr uint32_t kTooLarge = 0x477ff000u;  // 65520: halfway from the largest to the next
  constexpr uint32_t kInfinite = 0x7f800000u;
  const uint32_t whole = bits_as<uint32_t>(x), size = whole & 0x7fffffffu;
  const uint32_t normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
  // The last bit of 0.5 + x is worth 2^-24, like the last of a subnormal, so that the addition rounds.
  const uint32_t small = bits_as<uint32_t>(bits_as<float>(size) + 0.5f) - bits_as<uint32_t>(0.5f);
  const uint32_t large = size > kInfinite ? 0x7e00u : 0x7c00u;
  const uint32_t finite = size < kSmallest ? small : normal;
  return static_cast<uint16_t>((whole >> 16 & 0x8000u) | (size >= kTooLarge ? large : finite));
}
inline float16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, size = static_cast<uint32_t>(bits & 0x7fff) << 13;
  // As if it had a float32's exponent, it is 2^112 times too small, subnormal or not.
  const uint32_t finite = bits_as<uint32_t>(bits_as<float>(size) * 0x1p112f);
  return bits_as<float>(sign | (size >= 31u << 23 ? size | 0x7f800000u : finite));
}

}  // namespace unspool
