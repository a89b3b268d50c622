// Products with rows that lie in the shared memory of a block, which has all units of these, or of all blocks of a
// cluster, which have them between them. Written with device.h, steps.h and products.h alone.
#pragma once

namespace unspool {

// Puts a number into a row that is multiplied, or a unit's numbers, which lie side by side there.
template <typename T> UNSPOOL_DEVICE void put(T* to, T x) { *to = x; }
template <typename T, int numbers> UNSPOOL_DEVICE void put(T* to, const T (&from)[numbers]) {
  struct alignas(sizeof(from)) All {
    T numbers_[numbers];
  };
  All all;
#pragma unroll
  for (int k = 0; k < numbers; k++) all.numbers_[k] = from[k];
  *(All*)to = all;
}

// Puts what a lane has computed where each block of its cluster multiplies it; all lanes. `there`: whether this lane has
// something. Halves go two at a time, and numbers of a unit all at once.
template <int cluster, typename Bits> UNSPOOL_DEVICE void put_bits_for_all(void* to, Bits bits, Mail& mail) {
  *(Bits*)to = bits;
#pragma unroll
  for (int q = 1; q < cluster; q++) mail.send((block() + q) % cluster, to, bits);
}
template <int cluster> UNSPOOL_DEVICE void put_for_all(float* to, float x, bool there, Mail& mail) {
  if (there) put_bits_for_all<cluster>(to, bits_as<uint32_t>(x), mail);
}
template <int cluster, typename Half> UNSPOOL_DEVICE void put_for_all(Half* to, Half x, bool there, Mail& mail) {
  const uint32_t other = shuffle_down(uint32_t(x.bits), 1);
  if (there && thread() % 2 == 0) put_bits_for_all<cluster>(to, x.bits | other << 16, mail);
}
template <int cluster, int count, typename T>
UNSPOOL_DEVICE void put_for_all(T* to, const T (&numbers)[count], bool there, Mail& mail) {
  typename PostOf<count * sizeof(T)>::Type bits;
  memcpy(&bits, numbers, sizeof bits);
  if (there) put_bits_for_all<cluster>(to, bits, mail);
}

// All threads send for a block's rows of a step, 16 bytes at a time.
template <int rows, int row_bytes> UNSPOOL_DEVICE void copy_ahead(Copies& copies, void* to, const void* from, int there) {
  constexpr int kPieces = (rows * row_bytes / 16 + THREADS - 1) / THREADS;
#pragma unroll
  for (int k = 0; k < kPieces; k++) {
    const int at = (k * THREADS + thread()) * 16;
    if (at < there * row_bytes) copies.copy((char*)to + at, (const char*)from + at);
  }
}

// Products of a matrix, which stays in registers, with rows in shared memory, `apart` elements from each other. The
// matrix is the left factor, by tensor cores. Warps have columns of their own; where there are more warps than tiles
// of columns, some have the same ones and other terms: part[p][row][column] is added up by `total` later.
template <typename T, int depth, int tiles, int rows, int across, int parts, int apart> struct NearProduct {
  static constexpr int kEach = 16 / sizeof(T), kTerms = 4 * kEach;  // of a lane, of four lanes
  static constexpr int kTiles = tiles / across, kBlocks = (depth + kTerms * parts - 1) / (kTerms * parts);
  static constexpr int kApart = 16 * tiles + 4, kPart = rows * kApart;
  // A sum waits for the one before it: eight of those warps that share a scheduler are on their way at a time.
  static constexpr int kOthers = kTiles * (across * parts + 3) / 4, kWanted = kOthers < 8 ? 8 / kOthers : 1;
  static constexpr int kChains = kWanted < 2 * kBlocks ? kWanted : 2 * kBlocks;

  Four own_[kTiles][kBlocks][2];

  template <typename From> UNSPOOL_DEVICE void load(const From& from, char*, void* stage) {
    const int warp = thread() / 32, column = warp % across * kTiles * 16, part = warp / across;
    Four* const own = (Four*)stage + warp * 2 * kTiles * 32;
#pragma unroll
    for (int j = 0; j < kBlocks; j++) {
      gather_fragments<T, kTiles>(from, (part * kBlocks + j) * kTerms, column, (T*)own);
      sync_warp();
#pragma unroll
      for (int m = 0; m < kTiles; m++)
#pragma unroll
        for (int s = 0; s < 2; s++) own_[m][j][s] = own[(s * kTiles + m) * 32 + thread() % 32];
      sync_warp();
    }
  }

  UNSPOOL_DEVICE void run(const T* left, float* sums) const {
    const int lane = thread() % 32, warp = thread() / 32, g = lane / 4, t = lane % 4;
    const int column = warp % across * kTiles * 16 + g, part = warp / across, first = part * kBlocks * kTerms + t * kEach;
#pragma unroll 1
    for (int begin = 0; begin < rows; begin += 8) {
      const T* const row = left + (begin + g) * apart + first;
      Four right[kBlocks];
#pragma unroll
      for (int j = 0; j < kBlocks; j++) {
        const bool there = depth % (kTerms * parts) == 0 || first + j * kTerms < depth;
        right[j] = there ? *(const Four*)(row + j * kTerms) : Four{0, 0, 0, 0};
      }
      float chains[kChains][kTiles][4] = {};
#pragma unroll
      for (int j = 0; j < kBlocks; j++)
#pragma unroll
        for (int s = 0; s < 2; s++)
#pragma unroll
          for (int m = 0; m < kTiles; m++)
            mma(T(), chains[(2 * j + s) % kChains][m], own_[m][j][s], s ? right[j].z : right[j].x,
                s ? right[j].w : right[j].y);
#pragma unroll
      for (int m = 0; m < kTiles; m++) {
        float* const out = sums + part * kPart + (begin + 2 * t) * kApart + m * 16 + column;
#pragma unroll
        for (int k = 0; k < 4; k++) {
          float sum = chains[0][m][k];
#pragma unroll
          for (int n = 1; n < kChains; n++) sum += chains[n][m][k];
          out[k % 2 * kApart + k / 2 * 8] = sum;
        }
      }
    }
  }
};

}  // namespace unspool
