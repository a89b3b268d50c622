// The primitives of unspool's kernels (emit/cuda/loop/native/device.h) on a CPU: the very text of a kernel runs here.
// Threads are the fibers of runtime.cpp.
#include <math.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __forceinline__ inline
#define UNSPOOL_DEVICE inline
#define UNSPOOL_KERNEL static void
#define UNSPOOL_CLUSTER(blocks)
#pragma GCC optimize("O1")

namespace unspool {

static const Runtime* runtime;


constexpr double infinity = __builtin_huge_val(), not_a_number = __builtin_nan("");

template <typename To, typename From> inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  bfloat16(float x) {
    const uint32_t all = bits_as<uint32_t>(x);
    bits = x != x ? 0x7FFF : (all + 0x7FFF + (all >> 16 & 1)) >> 16;
  }
  operator float() const { return bits_as<float>(uint32_t(bits) << 16); }
};
struct float16 {
  unsigned short bits;
  float16() = default;
  float16(float x) : bits(bits_as<unsigned short>(_Float16(x))) {}
  operator float() const { return float(bits_as<_Float16>(bits)); }
};

inline float approximate_exp(float x) { return expf(x); }
inline float approximate_quotient(float a, float b) { return a / b; }
inline float approximate_tanh(float x) { return tanhf(x); }

struct alignas(16) Four {
  uint32_t x, y, z, w;
};
struct alignas(16) Two {
  uint64_t x, y;
};
struct alignas(8) Pair {
  uint32_t x, y;
};

inline int thread() { return runtime->running->thread; }
inline int thread_anew() { return thread(); }
inline int block() { return runtime->running->block; }
inline char* shared_memory() { return runtime->running->shared; }

// -- meeting ----------------------------------------------------------------------------------------------------------

inline void sync_block() { runtime->sync_block(); }
inline void sync_cluster() { runtime->sync_cluster(); }

// Lanes meet with what they are given; the last one computes for all.
template <typename Given, void (*compute)(Given**)> inline void meet(const char* kind, Given& own) {
  runtime->meet(kind, &own, [](void** all) { compute(reinterpret_cast<Given**>(all)); });
}
inline void nothing(int**) {}
inline void sync_warp() {
  int none = 0;
  meet<int, nothing>("sync_warp", none);
}
inline void find_any(bool** given) {
  bool found = false;
  for (int lane = 0; lane < kLanes; lane++) found |= *given[lane];
  for (int lane = 0; lane < kLanes; lane++) *given[lane] = found;
}
inline bool any(bool flag) {
  meet<bool, find_any>("any", flag);
  return flag;
}
template <typename T> struct Shuffled {
  T value, result;
  int by;
};
template <typename T> inline void cross(Shuffled<T>** given) {
  for (int lane = 0; lane < kLanes; lane++) given[lane]->result = given[lane ^ given[lane]->by]->value;
}
template <typename T> inline void shift(Shuffled<T>** given) {
  for (int lane = 0; lane + given[lane]->by < kLanes; lane++) given[lane]->result = given[lane + given[lane]->by]->value;
}
inline int warp_of_thread() { return thread() / 32; }
template <typename T> inline T shuffle_xor(T x, int mask) {
  Shuffled<T> own{x, x, mask};
  meet<Shuffled<T>, cross<T>>("shuffle_xor", own);
  return own.result;
}
template <typename T> inline T shuffle_down(T x, int by) {
  Shuffled<T> own{x, x, by};
  meet<Shuffled<T>, shift<T>>("shuffle_down", own);
  return own.result;
}

// -- words ------------------------------------------------------------------------------------------------------------

template <typename T> inline void peek(const void* from, T& v) { memcpy(&v, from, sizeof v); }
template <typename T> inline void poke(void* to, T v) {
  uint8_t before[sizeof v];
  memcpy(before, to, sizeof v);
  for (uint8_t each : before)
    if (each != 255) runtime->fail("a word is written twice");
  memcpy(to, &v, sizeof v);
  runtime->posted();
}
inline void fetch(const void*) {}
inline void pause(const char* what) { runtime->pause(what); }
inline uint64_t nanoseconds() { return runtime->nanoseconds(); }
inline void linger(uint32_t) {}
inline bool claim(int64_t* word) {
  const bool first = *word == 0;
  if (first) *word = 1;
  return first;
}
inline void publish(int64_t* word, int64_t v) { *word = v; }
inline int64_t look(const int64_t* word) { return *word; }

// -- mail ---------------------------------------------------------------------------------------------------------

class Mail {
 public:
  void open() { bytes_ = 0, phase_ = 0, expected_ = 0; }
  void expect(uint32_t bytes) {
    if (expected_) runtime->fail("mail is expected before the last one has come");
    bytes_ += int(bytes), expected_ = 1;
    complete();
  }
  template <typename Bits> void send(int rank, void* own, Bits bits) {
    memcpy(of(rank, static_cast<char*>(own)), &bits, sizeof bits);
    Mail* const theirs = of(rank, this);
    theirs->bytes_ -= sizeof bits;
    theirs->complete();
  }
  void wait(uint32_t phase) {
    while (phase_ == phase) runtime->pause("sums of the other blocks of a cluster");
  }

 private:
  void complete() {
    if (expected_ && !bytes_) phase_ ^= 1, expected_ = 0;
    runtime->posted();
  }
  template <typename T> static T* of(int rank, T* own) {
    return reinterpret_cast<T*>(runtime->shared_of(rank) + (reinterpret_cast<char*>(own) - runtime->running->shared));
  }
  int bytes_;
  uint16_t phase_, expected_;
};

// -- copies that go on meanwhile: made when they are waited for, and not before ---------------------------------------

struct Copies {
  struct {
    void* to;
    const void* from;
  } all[16][64];
  int counts[16] = {}, committed = 0, made = 0;
  void copy(void* to, const void* from) {
    if (uint64_t(to) % 16 || uint64_t(from) % 16) runtime->fail("what is copied ahead does not begin at 16 bytes");
    int& count = counts[committed % 16];
    if (count == 64) runtime->fail("more is copied ahead than the emulator has room for");
    all[committed % 16][count++] = {to, from};
  }
  void commit() {
    committed++;
    if (committed - made == 16) runtime->fail("more groups are copied ahead than the emulator has room for");
  }
  template <int most> void wait() {
    for (; committed - made > most; made++) {
      for (int k = 0; k < counts[made % 16]; k++) memcpy(all[made % 16][k].to, all[made % 16][k].from, 16);
      counts[made % 16] = 0;
    }
  }
};

// -- memory that nobody writes ----------------------------------------------------------------------------------------

template <typename T> inline void glance(const void* from, T& v) {
  if (uint64_t(from) % sizeof v) runtime->fail("what is read at once does not begin at a multiple of its size");
  memcpy(&v, from, sizeof v);
}

// -- tensor cores -----------------------------------------------------------------------------------------------------

struct Fragments {
  float* d;
  const uint32_t* a;
  uint32_t b[2];
};
// How many terms there are, how many are in a register, and which of these is wanted.
template <typename T> struct Terms {
  static constexpr int depth = 16, each = 2;
  static float take(uint32_t both, int which) {
    T half;
    half.bits = (unsigned short)(both >> 16 * which);
    return half;
  }
};
template <> struct Terms<float> {
  static constexpr int depth = 8, each = 1;
  static float take(uint32_t bits, int) { return bits_as<float>(bits & ~0x1FFFu); }  // TF32
};
template <typename T> inline void multiply_fragments(Fragments** given) {
  using How = Terms<T>;
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 8; column++) {
      float& sum = given[row % 8 * 4 + column / 2]->d[row / 8 * 2 + column % 2];
      for (int k = 0; k < How::depth; k++) {
        const int t = k / How::each % 4, high = k / (4 * How::each);
        const float left = How::take(given[row % 8 * 4 + t]->a[high * 2 + row / 8], k % How::each);
        sum += left * How::take(given[column * 4 + t]->b[high], k % How::each);
      }
    }
}
template <typename T> inline void mma(T, float* d, const Four& a, uint32_t b0, uint32_t b1) {
  Fragments own{d, &a.x, {b0, b1}};
  meet<Fragments, multiply_fragments<T>>("mma", own);
}

}  // namespace unspool
