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
// the order in which their words lie: `woven` numbers of a unit side by side. `transposed`: whether it lies by columns,
// which is no parameter of the template, or all that loads it would be compiled twice.
template <typename T, int depth, int width, int count, int each, int woven> struct Columns {
  const T* matrix;
  int tile;
  bool transposed;

  UNSPOOL_DEVICE T operator()(int term, int column) const {
    constexpr int kTurns = width / count;
    const bool there = term < depth && column < each * kTurns;
    const int row = there ? term % woven * (depth / woven) + term / woven : 0;
    const int own = there ? column % kTurns * count + tile * each + column / kTurns : 0;
    const T found = matrix[transposed ? own * depth + row : row * width + own];
    return there ? found : T(0.0f);
  }
  // Of so many terms and columns the i-th, in an order in which neighbours are neighbours in memory.
  UNSPOOL_DEVICE void nth(int i, int terms, int columns, int& term, int& column) const {
    constexpr int kTurns = width / count;
    term = transposed ? i % terms : i / columns;
    column = transposed ? i / terms : i % columns;
    if (!transposed && columns == each * kTurns) column = column % each * kTurns + column / each;
  }
};

// Loads them for a product, however the matrix lies.
template <int depth, int width, int count, int each, int woven, typename T, typename By>
UNSPOOL_DEVICE void load_columns(By& product, const T* matrix, bool transposed, int tile, char* memory, void* stage) {
  product.load(Columns<T, depth, width, count, each, woven>{matrix, tile, transposed}, memory, stage);
}

// What tensor cores take at two times of the 4 * kEach terms from `first` on, of 16 columns a tile: a lane (g, t) has
// columns g and g + 8, and 16 bytes of neighbouring terms, half of them for each time: to[time][tile][lane].
template <typename T, int tiles, typename From>
UNSPOOL_DEVICE void gather_fragments(const From& from, int first, int first_column, T* to) {
  constexpr int kEach = 16 / sizeof(T), kRun = kEach / 4, kHalf = kEach / 2;
#pragma unroll 8
  for (int i = thread() % 32; i < 16 * tiles * 4 * kEach; i += 32) {
    int term, c;
    from.nth(i, 4 * kEach, 16 * tiles, term, c);
    const int s = term % kEach / kHalf, q = term % kHalf, lane = c % 8 * 4 + term / kEach;
    to[((s * tiles + c / 16) * 32 + lane) * kEach + (q / kRun * 2 + c / 8 % 2) * kRun + q % kRun] =
        from(first + term, first_column + c);
  }
}

// Products of one block's columns with rows whose elements other blocks post, as in tensor.h, but exactly: a lane has
// columns, and all terms of its warp; or, where 16 lanes are enough for the columns, half of these. A matrix that is
// read again at every step is packed by warp, term, column.
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
      from.nth(i, kSplit * kEach, kColumns, term, c);
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
