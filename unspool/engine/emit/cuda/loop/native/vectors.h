// Vectors: neighbouring elements that a thread moves at once. They begin at a multiple of their size, or of 16 bytes.
// Written with device.h alone.
#pragma once

namespace unspool {

template <typename T, int n> struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Vector { T at[n]; };

// What is moved by one instruction.
template <int bytes> struct PieceOf { using Type = Four; };
template <> struct PieceOf<8> { using Type = uint64_t; };
template <> struct PieceOf<4> { using Type = uint32_t; };
template <> struct PieceOf<2> { using Type = uint16_t; };

// Reads elements that nobody writes while the kernel runs.
template <typename T, int n> UNSPOOL_DEVICE void read(Vector<T, n>& v, const T* from) {
  using Piece = typename PieceOf<alignof(Vector<T, n>)>::Type;
#pragma unroll
  for (int k = 0; k < int(sizeof v / sizeof(Piece)); k++) {
    Piece piece;
    glance((const Piece*)from + k, piece);
    memcpy((char*)&v + k * sizeof piece, &piece, sizeof piece);
  }
}
// Reads one that nobody writes while the kernel runs, so that it need not come after what is written before.
template <typename T> UNSPOOL_DEVICE T given(const T* from) {
  if constexpr (sizeof(T) == 1) return *from;
  else {
    typename PieceOf<sizeof(T)>::Type piece;
    glance(from, piece);
    return bits_as<T>(piece);
  }
}
// Reads elements that this thread, or its block, has written.
template <typename T, int n> UNSPOOL_DEVICE void recall(Vector<T, n>& v, const T* from) {
  v = *(const Vector<T, n>*)from;
}
template <typename T, int n> UNSPOOL_DEVICE void write(T* to, const Vector<T, n>& v) { *(Vector<T, n>*)to = v; }

}  // namespace unspool
