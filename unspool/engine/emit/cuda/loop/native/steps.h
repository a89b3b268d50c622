// What a loop's steps are told, and how they wait for what other blocks compute. Written with device.h alone.
#pragma once

namespace unspool {

// One chunk of steps. Rows are contiguous; streamed and emitted values have those of all steps one after another.
struct Chunk {
  int64_t steps;
  int64_t reverse;           // whether to run from the last step to the first
  int64_t rows;              // of the first step in time; they never grow with time
  int64_t teams;             // groups of rows that are run at the same time, each by the blocks of a team
  int64_t total;             // rows of all steps
  const int64_t* counts;     // the rows of each step; nullptr if all have the same
  const int64_t* starts;     // the rows of all steps before each
  int64_t* trouble;          // kTold if an index was out of range; it, its axis, the size of that; whether waiting was given up
  char* scratch;             // of all blocks, one after another
  void* memory[MEMORY];
};

constexpr int kGaveUp = 4;   // of `trouble`
constexpr int64_t kTold = 2; // the words behind it are there; running.py waits for it
constexpr uint64_t kPatience = 10000000000ull;  // nanoseconds

constexpr int kTall = 8;     // rows of a tile, which is what tensor cores take
// A block of several tiles has every n-th one of all rows, which are sorted by length, if there are n groups: so each has
// long and short rows. How many rows of others are between two tiles of a block that has so many rows.
UNSPOOL_DEVICE int rows_between(const Chunk& chunk, int most) { return ((int(chunk.rows) + most - 1) / most - 1) * kTall; }
// How far a row of the block is from its first one, among all.
UNSPOOL_DEVICE int outside(int row, int skip) { return row + row / kTall * skip; }

// One step of a block: its rows, and where they are. `Index` is as wide as all elements of a chunk need.
struct Step {
  int rows;                  // the first ones of the block's
  Index start;               // where the first of them is, among those of all steps
  int earlier;               // rows that had the step before, as this loop runs, from the block's first one on
  Index earlier_start, given;

  UNSPOOL_DEVICE Step(const Chunk& chunk, int k, int first, int most, int skip = 0) {
    const int time = chunk.reverse ? int(chunk.steps) - 1 - k : k, before = chunk.reverse ? time + 1 : time - 1;
    rows = own(count(chunk, time) - first, most, skip);
    start = begin(chunk, time) + first;
    earlier = k == 0 ? 0 : count(chunk, before) - first;
    earlier_start = k == 0 ? 0 : begin(chunk, before) + first;
    given = Index(chunk.total) + first;
  }
  // Where the words of the step before are of a row, so far from the block's first one; behind those of all steps come
  // those that a chunk is given.
  UNSPOOL_DEVICE Index before(int row) const { return row < earlier ? earlier_start + row : given + row; }

  UNSPOOL_DEVICE static int count(const Chunk& chunk, int time) {
    return chunk.counts ? int(chunk.counts[time]) : int(chunk.rows);
  }
  UNSPOOL_DEVICE static Index begin(const Chunk& chunk, int time) {
    return chunk.starts ? Index(chunk.starts[time]) : Index(chunk.rows) * time;
  }
  // How many of so many rows, of all from the block's first one on, are the block's own.
  UNSPOOL_DEVICE static int own(int count, int most, int skip = 0) {
    if (!skip) return at_most(count, most);
    int found = 0;
#pragma unroll
    for (int row = 0; row < most; row += kTall)
      found += at_most(count - outside(row, skip) > 0 ? count - outside(row, skip) : 0, kTall);
    return found;
  }
  UNSPOOL_DEVICE static int at_most(int count, int most) { return count < most ? count : most; }
};

// About where a block's rows of a later step are, by how far apart those of two steps are; always within the chunk.
UNSPOOL_DEVICE Index later(const Chunk& chunk, const Step& step, const Step& next, int skip = 0) {
  const Index start = next.start + 2 * (next.start - step.start), last = outside(next.rows - 1, skip);
  const Index most = Index(chunk.total) - 1 - last;
  return start < 0 ? 0 : start > most ? most : start;
}

// The steps at which the block whose first row is `first` has any: rows never grow with time.
struct Steps {
  int begin, end;            // as the loop runs

  UNSPOOL_DEVICE Steps(const Chunk& chunk, int first) {
    int least = 0, most = int(chunk.steps);  // the first step in time without the row is one of these
    if (!chunk.counts) least = first < chunk.rows ? most : 0;
    while (least < most) {
      const int middle = (least + most) / 2;
      if (chunk.counts[middle] > first) least = middle + 1;
      else most = middle;
    }
    begin = chunk.reverse && least ? int(chunk.steps) - least : 0;
    end = begin + least;
  }
};

// The group of rows that is the `nth` of a team. Rows are sorted, the longest first, so teams take turns in one order and
// then in the other: the longest group is followed by the shortest of the next turn. Groups are not taken by whoever is
// ready first: a team would have to agree on that, across blocks, before each of them.
UNSPOOL_DEVICE int group_of(const Chunk& chunk, int team, int nth) {
  const int teams = int(chunk.teams);
  return nth * teams + (nth % 2 ? teams - 1 - team : team);
}

// Where the `own`-th element of a block is in its row, of which each block has `each` of every `all`.
template <int all, int each> UNSPOOL_DEVICE int whole(int own, int tile) {
  return own / each * all + tile * each + own % each;
}

// -- indices that a row computes --------------------------------------------------------------------------------------

UNSPOOL_DEVICE int64_t out_of_range(int64_t index, int64_t size, int64_t axis, int64_t* trouble) {
  if (claim(trouble)) {
    trouble[1] = index, trouble[2] = axis, trouble[3] = size;
    publish(trouble, kTold);
  }
  return 0;  // the loop goes on to its end, and what it has computed is thrown away
}
UNSPOOL_DEVICE int64_t place(int64_t index, int64_t size, int64_t axis, int64_t* trouble) {
  return index >= 0 && index < size ? index : out_of_range(index, size, axis, trouble);
}
UNSPOOL_DEVICE int64_t place_from_end(int64_t index, int64_t size, int64_t axis, int64_t* trouble) {
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  return out_of_range(index, size, axis, trouble);
}

// -- what blocks of a cluster send each other --------------------------------------------------------------------------

// Tells a block when what others of its cluster send it has come: for two steps in turns, since the next one's may come
// while somebody still waits for this one's.
class Arrivals {
 public:
  UNSPOOL_DEVICE Arrivals(char* memory) : mail_((Mail*)memory) {  // before blocks meet for the first time
    if (thread() < 2) mail_[thread()].open();
  }
  UNSPOOL_DEVICE Mail& at(int k) const { return mail_[k & 1]; }
  // Until all that is expected of a step is here; all threads, once a step. Others may wait for words, but not for ever,
  // and then they send whatever they have: so neither does this.
  UNSPOOL_DEVICE void wait(int k) {
    at(k).wait(phases_ >> (k & 1) & 1);
    phases_ ^= 1 << (k & 1);
  }

 private:
  Mail* mail_;
  uint32_t phases_ = 0;  // of each mail a bit: whether it was waited for an odd number of times
};

// -- words ------------------------------------------------------------------------------------------------------------

// Words are empty, all ones, until somebody has posted a number there; a NaN with these bits is posted as another.
UNSPOOL_DEVICE bool empty(uint32_t v) { return v == ~0u; }
UNSPOOL_DEVICE bool empty(uint64_t v) { return v == ~0ull; }
UNSPOOL_DEVICE bool empty(const Four& v) { return empty(v.x) || empty(v.y) || empty(v.z) || empty(v.w); }
UNSPOOL_DEVICE bool empty(const Two& v) { return empty(v.x) || empty(v.y); }
UNSPOOL_DEVICE uint32_t full(uint32_t v, uint32_t other) { return empty(v) ? other : v; }
UNSPOOL_DEVICE uint64_t full(uint64_t v) { return empty(v) ? ~0ull >> 1 : v; }
UNSPOOL_DEVICE Pair full(Pair v, uint32_t other) { return {full(v.x, other), full(v.y, other)}; }
UNSPOOL_DEVICE Four full(Four v, uint32_t other) {
  return {full(v.x, other), full(v.y, other), full(v.z, other), full(v.w, other)};
}

// 16 bytes of words: of numbers up to 32 bits, and of larger ones.
template <int bytes> struct WordsOf { using Type = Four; };
template <> struct WordsOf<8> { using Type = Two; };
// Four, eight or sixteen bytes of them, which one lane posts.
template <int bytes> struct PostOf;
template <> struct PostOf<4> { using Type = uint32_t; };
template <> struct PostOf<8> { using Type = Pair; };
template <> struct PostOf<16> { using Type = Four; };
template <typename T> using Words = typename WordsOf<sizeof(T)>::Type;

// Ends waiting that has no end: after ten seconds, or when somebody else has given up. All lanes of a warp, together.
class Patience {
 public:
  UNSPOOL_DEVICE Patience(const Chunk& chunk, const char* what) : trouble_(chunk.trouble), what_(what) {}
  UNSPOOL_DEVICE bool lasts() {
    pause(what_);
    if (++polls_ % 1024) return true;
    const uint64_t now = nanoseconds();
    since_ = since_ ? since_ : now;
    const bool over = now - since_ > kPatience;
    if (over) claim(trouble_ + kGaveUp);
    return !any(over || look(trouble_ + kGaveUp));  // clocks differ, and whoever goes on alone waits for the others
  }

 private:
  int64_t* trouble_;
  const char* what_;
  uint64_t since_ = 0;
  uint32_t polls_ = 0;
};

// Hands on a number; all lanes. `there`: whether this lane has one. Halves go two at a time: neighbours have neighbours.
UNSPOOL_DEVICE void post(float* to, float x, bool there) {
  if (there) poke(to, full(bits_as<uint32_t>(x), ~0u >> 1));
}
UNSPOOL_DEVICE void post(double* to, double x, bool there) {
  if (there) poke(to, full(bits_as<uint64_t>(x)));
}
template <typename Half> UNSPOOL_DEVICE void post(Half* to, Half x, bool there) {
  const uint32_t other = shuffle_down(uint32_t(x.bits), 1);
  if (there && thread() % 2 == 0) poke(to, full(x.bits | other << 16, 0x7FFF7FFFu));
}
// Hands on what lies side by side: all numbers of a unit at once. Any lanes.
template <int count, typename T> UNSPOOL_DEVICE void post(T* to, const T (&numbers)[count], bool there) {
  static_assert(sizeof(T) <= 4, "numbers of one word, or of half a word");
  typename PostOf<count * sizeof(T)>::Type bits;
  memcpy(&bits, numbers, sizeof bits);
  if (there) poke(to, full(bits, sizeof(T) == 2 ? 0x7FFF7FFFu : ~0u >> 1));
}

// Cycles until others may see a word that was posted, as measured on an H200. Whoever looks earlier looks in vain, and
// looks again after a whole way to memory and back. Before a product's words are read there is that much else to do;
// after a block has posted what it folded there is nothing, and it lingers.
constexpr uint32_t kUnderway = 300;

// Words of other blocks, all of them on their way from memory at once; all lanes.
template <typename Bits> struct Word {
  const void* from;
  Bits bits;
};
template <typename... Bits> UNSPOOL_DEVICE void wait_for(const Chunk& chunk, const char* what, Word<Bits>&... words) {
  Patience patience(chunk, what);
  do (peek(words.from, words.bits), ...);
  while (any((empty(words.bits) || ...)) && patience.lasts());
}
// A number that another block posts; all lanes.
template <typename Bits> UNSPOOL_DEVICE Bits wait_for(const void* from, const Chunk& chunk, const char* what) {
  Word<Bits> word = {from};
  wait_for(chunk, what, word);
  return word.bits;
}
UNSPOOL_DEVICE float posted(const float* from, const Chunk& chunk, const char* what) {
  return bits_as<float>(wait_for<uint32_t>(from, chunk, what));
}
UNSPOOL_DEVICE double posted(const double* from, const Chunk& chunk, const char* what) {
  return bits_as<double>(wait_for<uint64_t>(from, chunk, what));
}
template <typename Half> UNSPOOL_DEVICE float posted(const Half* from, const Chunk& chunk, const char* what) {
  const uint64_t at = (uint64_t)from;
  const uint32_t both = wait_for<uint32_t>((const void*)(at & ~3ull), chunk, what);
  Half half;
  half.bits = (unsigned short)(at & 2 ? both >> 16 : both);
  return half;
}

}  // namespace unspool
