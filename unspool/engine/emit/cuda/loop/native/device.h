// The primitives that kernels of loops are written with, by PTX: nothing else in them is CUDA's alone.
// Every primitive with "all lanes" in its comment has to be reached by all lanes of a warp together.
#pragma once

#define UNSPOOL_KERNEL extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
#define UNSPOOL_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#define UNSPOOL_DEVICE __device__ __forceinline__

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;

namespace unspool {

constexpr double infinity = __builtin_bit_cast(double, 0x7FF0000000000000ull);
constexpr double not_a_number = __builtin_bit_cast(double, 0x7FF8000000000000ull);

// Halves: stored as such, computed with as float.
struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  UNSPOOL_DEVICE bfloat16(float x) {  // one of a pair, which takes a fifth of the time of one alone
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x));
    bits = (unsigned short)pair;
  }
  UNSPOOL_DEVICE operator float() const { return __uint_as_float(uint32_t(bits) << 16); }
};
struct float16 {
  unsigned short bits;
  float16() = default;
  UNSPOOL_DEVICE float16(float x) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x));
    bits = (unsigned short)pair;
  }
  UNSPOOL_DEVICE operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};

template <typename To, typename From> UNSPOOL_DEVICE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// Within a few units in the last place of a float, by one instruction or two; what is too small to be normal is zero.
UNSPOOL_DEVICE float approximate_exp(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.442695041f));
  return y;
}
UNSPOOL_DEVICE float approximate_quotient(float a, float b) { return __fdividef(a, b); }
// Within 2^-11 of its result.
UNSPOOL_DEVICE float approximate_tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// -- who and where ----------------------------------------------------------------------------------------------------

UNSPOOL_DEVICE int thread() { return threadIdx.x; }
// The same, read anew: what follows from it is not kept in registers through a loop before it is needed.
UNSPOOL_DEVICE int thread_anew() {
  int x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}
UNSPOOL_DEVICE int block() { return blockIdx.x; }
UNSPOOL_DEVICE char* shared_memory() {
  extern __shared__ __align__(16) char memory[];
  return memory;
}

// -- meeting ----------------------------------------------------------------------------------------------------------

UNSPOOL_DEVICE void sync_block() { __syncthreads(); }
UNSPOOL_DEVICE void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}
UNSPOOL_DEVICE void sync_warp() { __syncwarp(); }                       // all lanes
UNSPOOL_DEVICE bool any(bool flag) { return __any_sync(~0u, flag); }    // all lanes
// The number of a thread's warp, which a compiler then knows to be the same for all lanes; all lanes.
UNSPOOL_DEVICE int warp_of_thread() { return __shfl_sync(~0u, int(threadIdx.x) / 32, 0); }
template <typename T> UNSPOOL_DEVICE T shuffle_xor(T x, int mask) { return __shfl_xor_sync(~0u, x, mask); }  // all lanes
template <typename T> UNSPOOL_DEVICE T shuffle_down(T x, int by) { return __shfl_down_sync(~0u, x, by); }    // all lanes

// -- words: memory that other blocks write while it is read -----------------------------------------------------------

struct alignas(16) Four {
  uint32_t x, y, z, w;
};
struct alignas(16) Two {
  uint64_t x, y;
};
struct alignas(8) Pair {
  uint32_t x, y;
};
UNSPOOL_DEVICE void peek(const void* from, Four& v) {
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
}
UNSPOOL_DEVICE void peek(const void* from, Two& v) {
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(from) : "memory");
}
UNSPOOL_DEVICE void peek(const void* from, uint32_t& v) {
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
}
UNSPOOL_DEVICE void peek(const void* from, uint64_t& v) {
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(from) : "memory");
}
UNSPOOL_DEVICE void poke(void* to, uint32_t v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
}
UNSPOOL_DEVICE void poke(void* to, uint64_t v) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(v) : "memory");
}
UNSPOOL_DEVICE void poke(void* to, Pair v) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(v.x), "r"(v.y) : "memory");
}
UNSPOOL_DEVICE void poke(void* to, Four v) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};"
               ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
// Brings memory nearer, for a step that is not the next one.
UNSPOOL_DEVICE void fetch(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }
// Whoever waits says so, and where; it may be asked for the time.
UNSPOOL_DEVICE void pause(const char*) {}
UNSPOOL_DEVICE uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
// Lets some cycles of the processor's clock go by.
UNSPOOL_DEVICE void linger(uint32_t cycles) {
  uint32_t begin, now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(begin));
  do asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
  while (now - begin < cycles);
}
UNSPOOL_DEVICE bool claim(int64_t* word) {  // whether this thread was the first
  return atomicCAS((unsigned long long*)word, 0ull, 1ull) == 0ull;
}
UNSPOOL_DEVICE void publish(int64_t* word, int64_t v) {  // to the host too, after all that this thread has written
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
}
UNSPOOL_DEVICE int64_t look(const int64_t* word) { return *(const volatile int64_t*)word; }

// -- mail: shared memory that other blocks of a cluster write --------------------------------------------------------

// In shared memory: tells a block when what others of its cluster send it is there.
class Mail {
 public:
  UNSPOOL_DEVICE void open() {  // before blocks meet for the first time
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;"
                 ::"r"(place(this)) : "memory");
  }
  UNSPOOL_DEVICE void expect(uint32_t bytes) {  // one thread, each time; they may have come already
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place(this)), "r"(bytes) : "memory");
  }
  // Sends numbers to where that block has what this one has at `own`.
  UNSPOOL_DEVICE void send(int rank, void* own, uint32_t v) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                 ::"r"(theirs(place(own), rank)), "r"(v), "r"(theirs(place(this), rank)) : "memory");
  }
  UNSPOOL_DEVICE void send(int rank, void* own, Pair v) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%0], {%1, %2}, [%3];"
                 ::"r"(theirs(place(own), rank)), "r"(v.x), "r"(v.y), "r"(theirs(place(this), rank)) : "memory");
  }
  UNSPOOL_DEVICE void send(int rank, void* own, Four v) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, [%5];"
                 ::"r"(theirs(place(own), rank)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(theirs(place(this), rank))
                 : "memory");
  }
  UNSPOOL_DEVICE void wait(uint32_t phase) {  // `phase`: whether that was waited for an odd number of times before
    uint32_t there;
    do
      asm volatile(
          "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
          "selp.u32 %0, 1, 0, p;\n\t}" : "=r"(there) : "r"(place(this)), "r"(phase) : "memory");
    while (!there);
  }

 private:
  UNSPOOL_DEVICE static uint32_t place(void* own) { return uint32_t(__cvta_generic_to_shared(own)); }
  UNSPOOL_DEVICE static uint32_t theirs(uint32_t place, int rank) {
    uint32_t found;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(found) : "r"(place), "r"(rank));
    return found;
  }
  uint64_t state_;
};

// -- copies to shared memory, on which a thread need not wait --------------------------------------------------------

struct Copies {
  UNSPOOL_DEVICE void copy(void* to, const void* from) {  // 16 bytes
    const uint32_t place = uint32_t(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
  }
  UNSPOOL_DEVICE void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  // Until no more than so many of the groups that it has committed are on their way.
  template <int most> UNSPOOL_DEVICE void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(most) : "memory"); }
};

// -- memory that nobody writes while the kernel runs ------------------------------------------------------------------

UNSPOOL_DEVICE void glance(const void* from, Four& v) {
  asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
}
UNSPOOL_DEVICE void glance(const void* from, uint64_t& v) { asm("ld.global.nc.u64 %0, [%1];" : "=l"(v) : "l"(from)); }
UNSPOOL_DEVICE void glance(const void* from, uint32_t& v) { asm("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(from)); }
UNSPOOL_DEVICE void glance(const void* from, uint16_t& v) { asm("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(from)); }

// -- tensor cores: d += a b, all lanes --------------------------------------------------------------------------------

UNSPOOL_DEVICE void mma(bfloat16, float* d, const Four& a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
UNSPOOL_DEVICE void mma(float16, float* d, const Four& a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
// float as TF32, eight terms at a time.
UNSPOOL_DEVICE void mma(float, float* d, const Four& a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

}  // namespace unspool
