// Gradients of the filters of convolutions: sums, over rows and pixels, of what is seen by each tap times the gradient
// of what was computed there.
//
// Pixels are the lanes of vectors, and few outputs and taps at a time have their sums in registers. A row's sums are
// added to those of all rows in double precision.
#pragma once

#include "convolutions.h"

namespace unspool {

constexpr int kStrip = 4;                       // outputs at once
constexpr int kTaps = kBytes == 64 ? 6 : 2;     // and taps, whose sums fit into the registers

template <typename T, int64_t bytes> struct Lanes {
  typedef T Type __attribute__((vector_size(bytes), aligned(sizeof(T))));
};

// The sum of a vector, by halves.
template <typename T, int64_t bytes> inline T sum_lanes(typename Lanes<T, bytes>::Type vector) {
  if constexpr (bytes == 2 * sizeof(T)) {
    return vector[0] + vector[1];
  } else {
    typename Lanes<T, bytes / 2>::Type halves[2];
    std::memcpy(halves, &vector, bytes);
    return sum_lanes<T, bytes / 2>(halves[0] + halves[1]);
  }
}

// Lets a compiler read a vector once: it would rather read it wherever it is used, across two cache lines each time.
template <typename V> inline V read_once(V vector) {
#if defined(__x86_64__)
  asm("" : "+v"(vector));
#endif
  return vector;
}

// Pixels to go over: lines of whole vectors.
struct Lines {
  int64_t count, width;              // of a line
  int64_t per_plane;                 // lines, of images with three axes
  int64_t line, plane;               // how far apart they are in the copy of the image
  int64_t gradient_line;             // and in the gradient
};

// The sums of M gradients times what N taps see.
template <typename T, int M, int N>
__attribute__((noinline)) void correlate_tile(const Lines& lines, const T* gradient, int64_t gradient_channel,
                                              const T* const* pixels, T (&sums)[N][M]) {
  using Vec = typename Vector<T>::Type;
  Vec totals[M][N] = {};
  for (int64_t l = 0, y = 0, plane = 0; l < lines.count; l++) {
    const int64_t begin = plane + y * lines.line;
    const T* const own = gradient + l * lines.gradient_line;
    for (int64_t x = 0; x < lines.width; x += kLanes<T>) {
      Vec left[M];
      for (int m = 0; m < M; m++) left[m] = *reinterpret_cast<const Vec*>(own + m * gradient_channel + x);
      for (int n = 0; n < N; n++) {
        const Vec right = read_once(*reinterpret_cast<const Vec*>(pixels[n] + begin + x));
        for (int m = 0; m < M; m++) totals[m][n] += left[m] * right;
      }
    }
    if (++y == lines.per_plane) y = 0, plane += lines.plane;
  }
  for (int n = 0; n < N; n++)
    for (int m = 0; m < M; m++) sums[n][m] = sum_lanes<T, kBytes>(totals[m][n]);
}

// M outputs, by all channels and taps. Where these are not enough for a tile, the last one is there more than once.
template <typename T, int M>
void correlate_strip(const Convolution& c, const Lines& lines, const T* gradient, int64_t gradient_channel,
                     const T* copy, double* out) {
  const ConvolutionPart& part = *c.part();
  const int64_t all = c.channels * part.taps;
  for (int64_t begin = 0; begin < all; begin += kTaps) {
    const T* pixels[kTaps];
    double* places[kTaps];
    const int64_t count = all - begin < kTaps ? all - begin : kTaps;
    for (int64_t n = 0; n < kTaps; n++) {
      const int64_t k = begin + (n < count ? n : count - 1), channel = k / part.taps;
      const int64_t* const tap = part.tap() + 2 * (k % part.taps);
      pixels[n] = copy + channel * c.plane + tap[0];
      places[n] = out + channel * c.filter_channel + tap[1];
    }
    T sums[kTaps][M];
    correlate_tile<T, M, kTaps>(lines, gradient, gradient_channel, pixels, sums);
    for (int64_t n = 0; n < count; n++)
      for (int64_t m = 0; m < M; m++) places[n][m * c.filter_output] += sums[n][m];
  }
}

// A share of the gradient of filters by one row, added to `sums`. Where lines are not whole vectors, the gradient is
// copied, with zeros between its lines, so that all lines are one.
template <typename T>
void correlate(const Correlated<T>& what, double* sums, char* scratch, int64_t share, int64_t shares) {
  const Convolution& c = *what.how;
  const ConvolutionPart& part = *c.part();
  T* const copy = reinterpret_cast<T*>(scratch);
  copy_image(c, what.image, copy);
  T* const spare = copy + c.groups * c.channels * c.plane + kPanel<T>;
  const int64_t plane = c.copied[1] * c.copied[2], between = pixels_between(c, part);
  const int64_t rounded = (between + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  const bool whole = part.sizes[2] % kLanes<T> == 0;
  const Lines lines = whole ? Lines{part.sizes[0] * part.sizes[1], part.sizes[2], part.sizes[1], c.copied[2], plane,
                                    part.sizes[2]}
                            : Lines{1, rounded, 1, 0, 0, 0};
  int64_t number = 0;
  const int64_t all = c.groups * ((c.outputs + kStrip - 1) / kStrip);
  for (int64_t g = 0; g < c.groups; g++)
    for (int64_t first = 0; first < c.outputs; first += kStrip, number++) {
      if (number < all * share / shares || number >= all * (share + 1) / shares) continue;
      const int64_t height = c.outputs - first < kStrip ? c.outputs - first : kStrip;
      const T* gradient = what.gradient + (g * c.outputs + first) * what.gradient_channel;
      int64_t channel = what.gradient_channel;
      if (!whole) {
        std::memset(spare, 0, height * rounded * sizeof(T));
        for (int64_t m = 0; m < height; m++)
          pieces_of(c, part, 0, between, [&](int64_t at, int64_t place, int64_t count) {
            std::memcpy(spare + m * rounded + at, gradient + m * channel + place, count * sizeof(T));
          });
        gradient = spare;
        channel = rounded;
      }
      const T* const image = copy + g * c.channels * c.plane;
      double* const out = sums + g * c.filter_group + first * c.filter_output;
      if (height == kStrip) {
        correlate_strip<T, kStrip>(c, lines, gradient, channel, image, out);
      } else {
        for (int64_t m = 0; m < height; m++)
          correlate_strip<T, 1>(c, lines, gradient + m * channel, channel, image, out + m * c.filter_output);
      }
    }
}

}  // namespace unspool
