// Products of divided columns by tensor cores, with rows whose elements other blocks post. Written with device.h,
// steps.h and products.h alone.
#pragma once

namespace unspool {

// Products of one block's columns of a matrix with rows whose elements other blocks post. Each warp has some of the
// terms, and its sums are added up by `total` later: part[w][row][column]. The blocks of a cluster divide the terms among
// them, so that each reads only its part of a row's words, and multiplies the columns of all: part[w] of its own columns
// is followed by what others hand it of these, and then by its warps' sums for the columns of others.
// The matrix is the left factor, by tensor cores. What is read again at every step is packed so that a lane finds 16
// bytes at a time. `at_once`: how many tiles of eight rows are on their way from memory at the same time. `one_first`:
// whether a lane waits for one word before it reads them all: to read many again and again delays those who post them.
// `ahead`: whether the words of a tile of rows are on their way while those of the one before are multiplied.
template <typename T, int depth, int tiles, int rows, int warps, Kept kept, int at_once, bool one_first, bool ahead,
          int cluster>
struct TensorProduct {
  static constexpr int kEach = 16 / sizeof(T), kTerms = 4 * kEach;  // of a lane, of four lanes
  static constexpr int kAll = kTerms * warps * cluster, kBlocks = (depth + kAll - 1) / kAll;
  static constexpr int kColumns = 16 * tiles, kApart = kColumns + 4, kWarp = rows * kApart;
  static constexpr int kTiles = tiles * cluster;  // of a warp: its own block's first, then those of the next ones
  static constexpr int kFours = warps * kTiles * kBlocks * 2 * 32;  // of a block's part of the matrix
  static constexpr int kSharedBytes = kept == Kept::shared ? kFours * 16 : 0;
  static constexpr int64_t kPacked = kFours * (int64_t)kEach;  // numbers of it

  Four own_[kept == Kept::registers ? kTiles : 1][kept == Kept::registers ? kBlocks : 1][2];
  const Four* packed_;

  // `memory`: room for what is kept there. `stage`: room for sums, in which numbers meet those that belong beside them.
  template <typename From> UNSPOOL_DEVICE void load(const From& from, char* memory, void* stage) {
    Four* const own = (Four*)stage + thread() / 32 * 2 * tiles * 32;
#pragma unroll
    for (int q = 0; q < cluster; q++) {
      From theirs = from;
      theirs.tile += neighbour(q) - neighbour(0);
#pragma unroll
      for (int j = 0; j < kBlocks; j++) {
        gather_fragments<T, tiles>(theirs, (warp() * kBlocks + j) * kTerms, 0, (T*)own);
        sync_warp();
#pragma unroll
        for (int m = 0; m < tiles; m++)
#pragma unroll
          for (int s = 0; s < 2; s++) {
            const Four found = own[(s * tiles + m) * 32 + thread() % 32];
            if (kept == Kept::registers) own_[q * tiles + m][j][s] = found;
            else ((Four*)memory)[place(q * tiles + m, j, s)] = found;
          }
        sync_warp();
      }
    }
    packed_ = (const Four*)memory;
  }
  UNSPOOL_DEVICE void read_again(const T* packed) { packed_ = (const Four*)packed; }

  // `row(r)`: where the r-th row is among the words. `there`: rows that there are.
  template <typename Row>
  UNSPOOL_DEVICE void run(const Chunk& chunk, const T* words, Row row, int there, float* part, char*,
                          const char* what) const {
    if constexpr (ahead) {
      Tiles<1> right[2];
      ask(right[0], words, row, 0, there);
#pragma unroll
      for (int n = 0; n < rows / 8; n++) {
        if (n * 8 >= there) break;
        wait(right[n % 2], chunk, what);
        if (n * 8 + 8 < rows && n * 8 + 8 < there) ask(right[1 - n % 2], words, row, n * 8 + 8, there);
        multiply(right[n % 2], n * 8, part);
      }
    } else {
#pragma unroll 1
      for (int begin = 0; begin < rows && begin < there; begin += 8 * at_once) {
        // Rows end one after another: where few are left, nothing is read or multiplied for the others.
        if (at_once > 1 && there - begin <= 8) multiply<1>(chunk, words, row, begin, there, part, what);
        else multiply<at_once>(chunk, words, row, begin, there, part, what);
      }
    }
  }

  // Hands the other blocks of the cluster their sums, when all warps have theirs in `part`. Whoever is a step ahead of a
  // block has that block's sums of the step before, which it sends when its threads no longer read what it was sent two
  // steps ago.
  UNSPOOL_DEVICE void hand_over(float* part, int there, Mail& mail) {
    const int each = there * kColumns;
    if (thread() == 0) mail.expect((cluster - 1) * each * sizeof(float));
#pragma unroll
    for (int q = 1; q < cluster; q++)
      for (int item = thread(); item < each; item += THREADS) {
        const int place = item / kColumns * kApart + item % kColumns;
        const float sum = total<warps>(sums_for(part, q) + place, kWarp);
        mail.send(neighbour(q), part + (warps + q - 1) * kWarp + place, bits_as<uint32_t>(sum));
      }
  }

 private:
  // Words of `tall` tiles of eight rows, and where they come from.
  template <int tall> struct Tiles {
    const T* from[tall];
    Four words[tall][kBlocks];
  };

  // Asks for those of the rows from `begin` on.
  template <int tall, typename Row>
  UNSPOOL_DEVICE void ask(Tiles<tall>& right, const T* words, Row row, int begin, int there) const {
    const int g = thread() % 32 / 4;
#pragma unroll
    for (int n = 0; n < tall; n++) {
      const int own = begin + n * 8 + g;
      right.from[n] = words + (row(own < there ? own : 0) + first());
    }
    ask(right);
  }
  template <int tall> UNSPOOL_DEVICE static void ask(Tiles<tall>& right) {
#pragma unroll
    for (int n = 0; n < tall; n++)
#pragma unroll
      for (int j = 0; j < kBlocks; j++) {
        if (depth % kAll == 0 || first() + j * kTerms < depth) peek(right.from[n] + j * kTerms, right.words[n][j]);
        else right.words[n][j] = Four{0, 0, 0, 0};
      }
  }
  // Until all are there.
  template <int tall> UNSPOOL_DEVICE static void wait(Tiles<tall>& right, const Chunk& chunk, const char* what) {
    Patience patience(chunk, what);
    for (;;) {
      bool more = false;
#pragma unroll
      for (int n = 0; n < tall; n++)
#pragma unroll
        for (int j = 0; j < kBlocks; j++) more |= empty(right.words[n][j]);
      if (!any(more) || !patience.lasts()) break;
      ask(right);
    }
  }
  // `tall` tiles of eight rows, from the row `begin` on.
  template <int tall, typename Row>
  UNSPOOL_DEVICE void multiply(const Chunk& chunk, const T* words, Row row, int begin, int there, float* part,
                               const char* what) const {
    Tiles<tall> right;
    if (one_first) {
      const int last = (kBlocks - 1) * kTerms;
      Patience patience(chunk, what);
      do peek(words + (row(begin + thread() % 32 / 4 < there ? begin + thread() % 32 / 4 : 0) +
                       (first() + last < depth ? first() + last : first() < depth ? first() : 0)), right.words[0][0]);
      while (any(empty(right.words[0][0])) && patience.lasts());
    }
    ask(right, words, row, begin, there);
    wait(right, chunk, what);
    multiply(right, begin, part);
  }
  template <int tall> UNSPOOL_DEVICE void multiply(const Tiles<tall>& right, int begin, float* part) const {
    const int g = thread() % 32 / 4, t = thread() % 4;
    float sums[tall][kTiles][4] = {};
#pragma unroll
    for (int j = 0; j < kBlocks; j++)
#pragma unroll
      for (int m = 0; m < kTiles; m++)
#pragma unroll
        for (int s = 0; s < 2; s++) {
          const Four left = kept == Kept::registers ? own_[m][j][s] : at(m, j, s);
#pragma unroll
          for (int n = 0; n < tall; n++) {
            const Four& own = right.words[n][j];
            mma(T(), sums[n][m], left, s ? own.z : own.x, s ? own.w : own.y);
          }
        }
#pragma unroll
    for (int q = 0; q < cluster; q++)
#pragma unroll
      for (int n = 0; n < tall; n++)
#pragma unroll
        for (int m = 0; m < tiles; m++) {
          float* const out = sums_for(part, q) + thread() / 32 * kWarp + (begin + n * 8 + 2 * t) * kApart + m * 16 + g;
          const float* const own = sums[n][q * tiles + m];
          out[0] = own[0];
          out[kApart] = own[1];
          out[8] = own[2];
          out[kApart + 8] = own[3];
        }
  }

  UNSPOOL_DEVICE static float* sums_for(float* part, int q) {
    return part + (q ? q * warps + cluster - 1 : 0) * kWarp;
  }
  // The first of a lane's terms.
  UNSPOOL_DEVICE static int first() { return warp() * kBlocks * kTerms + thread() % 4 * kEach; }
  // The block that is so many behind this one in its cluster.
  UNSPOOL_DEVICE static int neighbour(int behind) { return (block() + behind) % cluster; }
  // The number of a warp in its cluster.
  UNSPOOL_DEVICE static int warp() { return neighbour(0) * warps + thread() / 32; }
  UNSPOOL_DEVICE static int place(int m, int j, int s) {
    return (((thread() / 32 * kTiles + m) * kBlocks + j) * 2 + s) * 32 + thread() % 32;
  }
  UNSPOOL_DEVICE Four at(int m, int j, int s) const { return packed_[place(m, j, s)]; }
};

}  // namespace unspool
