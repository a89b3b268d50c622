// Products of rows with a matrix that all rows share. Written with device.h and steps.h alone.
#pragma once

namespace unspool {

// Where a block keeps its part of a matrix between steps.
enum class Kept { registers, shared, memory };

// Sums of the terms of all warps, in order.
template <int warps, typename T> UNSPOOL_DEVICE T total(const T* part, int apart) {
  T sum = part[0];
#pragma unroll
  for (int w = 1; w < warps; w++) sum += part[w * apart];
  return sum;
}

// out = left @ matrix + added for rows of one block, all of it: a thread has columns. Distances are counted in elements.
template <int depth, int width, typename Sum, typename L, typename M, typename A, typename O>
UNSPOOL_DEVICE void multiply_rows(int rows, const L* left, int left_apart, const M* matrix, const A* added,
                                  int64_t added_apart, O* out, int out_apart) {
  constexpr int kRows = 4;
  for (int column = thread(); column < width; column += THREADS)
    for (int first = 0; first < rows; first += kRows) {
      Sum sums[kRows] = {}, starts[kRows];
#pragma unroll
      for (int q = 0; q < kRows; q++)  // they arrive while terms are multiplied
        starts[q] = added && first + q < rows ? Sum(added[(first + q) * added_apart + column]) : Sum(0);
#pragma unroll 4
      for (int k = 0; k < depth; k++) {
        const Sum factor = Sum(matrix[(int64_t)k * width + column]);
#pragma unroll
        for (int q = 0; q < kRows; q++)
          sums[q] += Sum(left[(first + q < rows ? first + q : first) * left_apart + k]) * factor;
      }
#pragma unroll
      for (int q = 0; q < kRows; q++)
        if (first + q < rows) out[(first + q) * out_apart + column] = O(starts[q] + sums[q]);
    }
}

// The column in which left @ matrix + added is largest, of one row; all lanes of a warp work on it.
template <int depth, int width, typename L, typename M, typename A>
UNSPOOL_DEVICE int64_t largest_column(const L* left, const M* matrix, const A* added) {
  float best = -infinity;
  int64_t where = 0;
  for (int begin = 0; begin < width; begin += 32) {
    const int column = begin + thread() % 32, own = column < width ? column : width - 1;
    float sum = added ? float(added[own]) : 0.0f;
    for (int k = 0; k < depth; k++) sum += float(left[k]) * float(matrix[(int64_t)k * width + own]);
    if (column < width && exceeds(sum, best)) best = sum, where = column;
  }
  return fold_places<32>(best, where, [](float x, float y) { return exceeds(x, y); });
}

// A block's columns of a matrix: those of its units, the turns of a unit side by side. Rows of the matrix are terms, in
// the order in which their words lie: `woven` numbers of a unit side by side. `transposed`: whether it lies by columns.
template <typename T, int depth, int width, int count, int each, int woven, bool transposed> struct Columns {
  const T* matrix;
  int tile;

  UNSPOOL_DEVICE T operator()(int term, int column) const {
    constexpr int kTurns = width / count;
    const bool there = term < depth && column < each * kTurns;
    const int row = there ? term % woven * (depth / woven) + term / woven : 0;
    const int own = there ? column % kTurns * count + tile * each + column / kTurns : 0;
    const T found = matrix[transposed ? own * depth + row : row * width + own];
    return there ? found : T(0.0f);
  }
  // Of so many terms and columns the i-th, in an order in which neighbours are neighbours in memory.
  UNSPOOL_DEVICE static void nth(int i, int terms, int columns, int& term, int& column) {
    constexpr int kTurns = width / count;
    term = transposed ? i % terms : i / columns;
    column = transposed ? i / terms : i % columns;
    if (!transposed && columns == each * kTurns) column = column % each * kTurns + column / each;
  }
};

// Loads them for a product, however the matrix lies.
template <int depth, int width, int count, int each, int woven, typename T, typename By>
UNSPOOL_DEVICE void load_columns(By& product, const T* matrix, bool transposed, int tile, char* memory, void* stage) {
  if (transposed) product.load(Columns<T, depth, width, count, each, woven, true>{matrix, tile}, memory, stage);
  else product.load(Columns<T, depth, width, count, each, woven, false>{matrix, tile}, memory, stage);
}

// What tensor cores take at a time of the terms from `first` on, of 16 columns a tile: a lane (g, t) has columns g and
// g + 8, and 16 bytes of neighbouring terms, half of them for each `s`.
template <typename T, int tiles, typename From>
UNSPOOL_DEVICE void gather_fragments(const From& from, int first, int first_column, int s, T* to) {
  constexpr int kEach = 16 / sizeof(T), kRun = kEach / 4, kHalf = kEach / 2;
#pragma unroll 8
  for (int i = thread() % 32; i < 16 * tiles * 4 * kHalf; i += 32) {
    int term, c;
    From::nth(i, 4 * kHalf, 16 * tiles, term, c);
    const int t = term / kHalf, q = term % kHalf, lane = c % 8 * 4 + t;
    to[(c / 16 * 32 + lane) * kEach + (q / kRun * 2 + c / 8 % 2) * kRun + q % kRun] =
        from(first + t * kEach + s * kHalf + q, first_column + c);
  }
}

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
  uint32_t phases_ = 0;  // of the mail of each other step, a bit each

  // `memory`: room for what is kept there. `stage`: room for sums, in which numbers meet those that belong beside them.
  template <typename From> UNSPOOL_DEVICE void load(const From& from, char* memory, void* stage) {
    Four* const own = (Four*)stage + thread() / 32 * tiles * 32;
#pragma unroll
    for (int q = 0; q < cluster; q++) {
      From theirs = from;
      theirs.tile += neighbour(q) - neighbour(0);
#pragma unroll
      for (int j = 0; j < kBlocks; j++)
#pragma unroll
        for (int s = 0; s < 2; s++) {
          gather_fragments<T, tiles>(theirs, (warp() * kBlocks + j) * kTerms, 0, s, (T*)own);
          sync_warp();
#pragma unroll
          for (int m = 0; m < tiles; m++) {
            const Four found = own[m * 32 + thread() % 32];
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

  // Hands the other blocks of the cluster their sums, when all warps have theirs in `part`, and waits for what they have
  // for this one. `turn`: which of two steps' mail. Whoever is a step ahead of a block has that block's sums of the step
  // before, which it sends when its threads no longer read what it was sent two steps ago.
  UNSPOOL_DEVICE void exchange(float* part, int there, Mail* mail, int turn) {
    const int each = there * kColumns;
    if (thread() == 0) mail[turn].expect((cluster - 1) * each * sizeof(float));
#pragma unroll
    for (int q = 1; q < cluster; q++)
      for (int item = thread(); item < each; item += THREADS) {
        const int place = item / kColumns * kApart + item % kColumns;
        const float sum = total<warps>(sums_for(part, q) + place, kWarp);
        mail[turn].send(neighbour(q), part + (warps + q - 1) * kWarp + place, sum);
      }
    mail[turn].wait(phases_ >> turn & 1);
    phases_ ^= 1 << turn;
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
    for (int n = 0; n < tall; n++) right.from[n] = words + (row(begin + n * 8 + g < there ? begin + n * 8 + g : 0) + first());
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
          for (int n = 0; n < tall; n++)
            {
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

// The same, exactly: a lane has columns, and all terms of its warp; or, where 16 lanes are enough for the columns, half
// of these. A matrix that is read again at every step is packed by warp, term, column.
template <typename T, int depth, int tiles, int rows, int warps, Kept kept> struct ExactProduct {
  static constexpr int kEach = 16 / sizeof(T), kColumns = 16 * tiles, kAcross = kColumns % 32 ? 16 : 32;
  static constexpr int kSplit = 32 / kAcross, kLanes = kColumns / kAcross, kAll = kEach * warps * kSplit;
  static constexpr int kOwn = (depth + kAll - 1) / kAll * kEach, kTerms = kOwn * kSplit;  // of a lane, of a warp
  static constexpr int kApart = kColumns + 4, kWarp = rows * kApart;
  static constexpr int kNumbers = warps * kOwn * kLanes * 32;
  static constexpr int kStage = 8 * kTerms * sizeof(T);  // bytes of a warp: eight rows' terms
  static constexpr int kSharedBytes = warps * kStage + (kept == Kept::shared ? kNumbers * (int)sizeof(T) : 0);
  static constexpr int64_t kPacked = kNumbers;
  static constexpr int kUnrolled = kept == Kept::registers ? kOwn : 8;  // registers have no indices that vary

  T own_[kept == Kept::registers ? kLanes : 1][kept == Kept::registers ? kOwn : 1];
  const T* packed_;

  template <typename From> UNSPOOL_DEVICE void load(const From& from, char* memory, void* stage) {
    T* const own = (T*)stage + thread() / 32 * kColumns * kSplit * kEach;
    T* const copy = (T*)(memory + warps * kStage);
#pragma unroll
    for (int begin = 0; begin < kOwn; begin += kEach) {
      gather(from, thread() / 32 * kSplit * kOwn + begin, own);
      sync_warp();
#pragma unroll
      for (int k = 0; k < kEach; k++)
#pragma unroll
        for (int c = 0; c < kLanes; c++) {
          const T found = own[(k * kLanes + c) * 32 + thread() % 32];
          if (kept == Kept::registers) own_[c][begin + k] = found;
          else copy[place(c, begin + k)] = found;
        }
      sync_warp();
    }
    packed_ = copy;
  }
  UNSPOOL_DEVICE void read_again(const T* packed) { packed_ = packed; }

  template <typename Row>
  UNSPOOL_DEVICE void run(const Chunk& chunk, const T* words, Row row, int there, T* part, char* memory,
                          const char* what) const {
    const int lane = thread() % 32, warp = thread() / 32;
    T* const stage = (T*)(memory + warp * kStage);
    constexpr int kPieces = kTerms / kEach, kMine = (8 * kPieces + 31) / 32;
#pragma unroll 1
    for (int n = 0; n < rows / 8; n++) {
      if (n * 8 >= there) break;
      Words<T> pieces[kMine];
      Patience patience(chunk, what);
      bool more;
      do {
        more = false;
#pragma unroll
        for (int j = 0; j < kMine; j++) {
          const int piece = j * 32 + lane, r = n * 8 + piece / kPieces, term = warp * kTerms + piece % kPieces * kEach;
          if (piece < 8 * kPieces && term < depth) peek(words + (row(r < there ? r : 0) + term), pieces[j]);
          else pieces[j] = Words<T>();
        }
#pragma unroll
        for (int j = 0; j < kMine; j++) more |= empty(pieces[j]);
      } while (any(more) && patience.lasts());
#pragma unroll
      for (int j = 0; j < kMine; j++)
        if (j * 32 + lane < 8 * kPieces) ((Words<T>*)stage)[j * 32 + lane] = pieces[j];
      sync_warp();
      T sums[8][kLanes] = {};
#pragma unroll kUnrolled
      for (int k = 0; k < kOwn; k++)
#pragma unroll
        for (int r = 0; r < 8; r++) {
          const T term = stage[r * kTerms + lane / kAcross * kOwn + k];
#pragma unroll
          for (int c = 0; c < kLanes; c++) sums[r][c] += (kept == Kept::registers ? own_[c][k] : at(c, k)) * term;
        }
      sync_warp();  // before the next rows are put there
#pragma unroll
      for (int r = 0; r < 8; r++)
#pragma unroll
        for (int c = 0; c < kLanes; c++) {
          if (kSplit > 1) sums[r][c] += shuffle_xor(sums[r][c], kAcross);
          if (lane < kAcross) part[warp * kWarp + (n * 8 + r) * kApart + c * kAcross + lane] = sums[r][c];
        }
    }
  }

 private:
  // kEach terms of each of a warp's parts, from the `first` of the first part on.
  template <typename From> UNSPOOL_DEVICE static void gather(const From& from, int first, T* to) {
#pragma unroll 8
    for (int i = thread() % 32; i < kColumns * kSplit * kEach; i += 32) {
      int term, c;
      From::nth(i, kSplit * kEach, kColumns, term, c);
      const int part = term / kEach, k = term % kEach;
      to[(k * kLanes + c / kAcross) * 32 + part * kAcross + c % kAcross] = from(first + part * kOwn + k, c);
    }
  }
  UNSPOOL_DEVICE static int place(int c, int k) {
    return ((thread() / 32 * kOwn + k) * kLanes + c) * 32 + thread() % 32;
  }
  UNSPOOL_DEVICE T at(int c, int k) const { return packed_[place(c, k)]; }
};

}  // namespace unspool
