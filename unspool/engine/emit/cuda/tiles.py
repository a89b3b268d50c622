"""Tiles of a skinny product: how threads divide it, and the code that multiplies one."""

from __future__ import annotations

from typing import NamedTuple


class Tile(NamedTuple):
    """What a block of threads computes: `rows` x `columns` of the product.

    Each thread has `thread_rows` x `thread_columns` of them. Of the terms that are added up, each of `groups` of
    threads has its part. `depth` terms are fetched at a time, and up to `stages` times so many are on their way.
    """

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int
    groups: int
    depth: int
    stages: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows // self.thread_rows * (self.columns // self.thread_columns) * self.groups

    @property
    def shared_memory(self) -> int:
        """Bytes for what was fetched, later for the sums of half of the groups, and for the tile."""
        fetched = self.stages * (self.rows + self.columns) * (self.depth + 4)
        sums = self.groups // 2 * self.rows * self.columns
        return 4 * max(fetched, sums, self.rows * (self.columns + 1))

    @property
    def constants(self) -> dict[str, int]:
        """What the code calls these numbers."""
        names = ("ROWS", "COLUMNS", "THREAD_ROWS", "THREAD_COLUMNS", "GROUPS", "DEPTH", "STAGES")
        return dict(zip(names, self, strict=True))


MANY = 4000
"""Columns that keep the 132 processors of an H200 busy, 40 at a time."""
MANY_COLUMNS = {
    1: Tile(1, 40, 1, 2, 8, 128, 3),
    16: Tile(16, 40, 2, 5, 4, 64, 5),
    64: Tile(64, 40, 8, 5, 4, 64, 5),
}
FEW_COLUMNS = {
    1: Tile(1, 8, 1, 1, 32, 256, 2),
    16: Tile(16, 8, 2, 4, 16, 128, 4),
    64: Tile(32, 16, 4, 2, 4, 128, 5),
}
"""By the most rows they are for, the fastest of some twenty tiles on an H200, with 256 and 512 terms."""

FETCH = """
constexpr int GROUP = (ROWS / THREAD_ROWS) * (COLUMNS / THREAD_COLUMNS), THREADS = GROUP * GROUPS;
constexpr int PART = COLUMNS / PARTS;  // columns of the tile in each part of the product
constexpr int STEP = DEPTH + 4;        // so that neighbouring rows are in other banks
constexpr int PITCH = COLUMNS + 1;

__device__ __forceinline__ void fetch(float* to, const float* from, bool there) {  // four at once, or zeros
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  // By way of the first cache: rows that read the same row of a table would wait for each other in the second.
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(there ? 16 : 0));
}
"""
"""Before the kernel."""

MULTIPLY = """
  extern __shared__ float4 memory[];
  float* const tile = (float*)memory;
  float* const left = tile;
  float* const right = tile + STAGES * ROWS * STEP;
  const int first_row = blockIdx.y * ROWS, first = blockIdx.x * PART;

  const auto fetch_right = [&](int chunk) {
    const int stage = chunk % STAGES, start = chunk * DEPTH;
    for (int each = threadIdx.x; each < COLUMNS * (DEPTH / 4); each += THREADS) {
      const int n = each / (DEPTH / 4), k = each % (DEPTH / 4) * 4, column = first + n % PART;
      const bool there = column < WIDTH && start + k < TERMS;
      const float* from = matrix + ((long long)(n / PART) * WIDTH + column) * TERMS + start + k;
      fetch(right + (stage * COLUMNS + n) * STEP + k, there ? from : matrix, there);
    }
  };
  const auto fetch_left = [&](int chunk) {
    const int stage = chunk % STAGES, start = chunk * DEPTH;
    for (int each = threadIdx.x; each < ROWS * (DEPTH / 4); each += THREADS) {
      const int m = each / (DEPTH / 4), k = each % (DEPTH / 4) * 4;
      const bool there = first_row + m < count && start + k < TERMS;
      fetch(left + (stage * ROWS + m) * STEP + k, there ? source(first_row + m, start + k) : matrix, there);
    }
  };

  const int group = threadIdx.x / GROUP, member = threadIdx.x % GROUP;
  constexpr int CHUNKS = (TERMS + DEPTH - 1) / DEPTH, AHEAD = STAGES - 1;
  constexpr int DOWN = ROWS / THREAD_ROWS, ACROSS = COLUMNS / THREAD_COLUMNS, OWN = DEPTH / GROUPS;
  const int m = member % DOWN, n = member / DOWN;
  float sum[THREAD_ROWS][THREAD_COLUMNS] = {};
  for (int chunk = 0; chunk < AHEAD && chunk < CHUNKS; chunk++) fetch_right(chunk);
  wait_for_earlier();
  for (int next = 0; next < CHUNKS + AHEAD; next++) {
    if (next >= AHEAD) {
      asm volatile("cp.async.wait_group %0;" :: "n"(AHEAD - 1));
      __syncthreads();
    }
    if (next >= AHEAD && next < CHUNKS) fetch_right(next);
    if (next < CHUNKS) fetch_left(next);
    asm volatile("cp.async.commit_group;");
    if (next < AHEAD) continue;
    const int chunk = next - AHEAD;
    const float* x = left + (chunk % STAGES * ROWS + m) * STEP + group * OWN;
    const float* y = right + (chunk % STAGES * COLUMNS + n) * STEP + group * OWN;
    #pragma unroll
    for (int k = 0; k < OWN; k += 4) {
      float4 a[THREAD_ROWS], b[THREAD_COLUMNS];
      #pragma unroll
      for (int i = 0; i < THREAD_ROWS; i++) a[i] = *(const float4*)(x + i * DOWN * STEP + k);
      #pragma unroll
      for (int j = 0; j < THREAD_COLUMNS; j++) b[j] = *(const float4*)(y + j * ACROSS * STEP + k);
      #pragma unroll
      for (int i = 0; i < THREAD_ROWS; i++)
        #pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) {
          sum[i][j] += a[i].x * b[j].x;
          sum[i][j] += a[i].y * b[j].y;
          sum[i][j] += a[i].z * b[j].z;
          sum[i][j] += a[i].w * b[j].w;
        }
    }
  }
  __syncthreads();

  for (int half = GROUPS / 2; half > 0; half /= 2) {  // the sums of all groups
    float* const theirs = tile + (group % half) * THREAD_ROWS * THREAD_COLUMNS * GROUP + member;
    #pragma unroll
    for (int i = 0; i < THREAD_ROWS * THREAD_COLUMNS; i++)
      if (group >= half && group < 2 * half) theirs[i * GROUP] = sum[i / THREAD_COLUMNS][i % THREAD_COLUMNS];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < THREAD_ROWS * THREAD_COLUMNS; i++)
      if (group < half) sum[i / THREAD_COLUMNS][i % THREAD_COLUMNS] += theirs[i * GROUP];
    __syncthreads();
  }
  if (group == 0)
    #pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
      #pragma unroll
      for (int j = 0; j < THREAD_COLUMNS; j++) tile[(m + i * DOWN) * PITCH + n + j * ACROSS] = sum[i][j];
  __syncthreads();
"""
"""In it, after `matrix` and `source`: lets `tile` have the product. The matrix is there before earlier kernels end."""
