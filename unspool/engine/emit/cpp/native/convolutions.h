// Convolutions of a row's image by filters that stay the same for many steps.
//
// The image is copied once, with zeros around it and, for strides, taken apart into phases: whatever the stride,
// dilation and padding, the pixels that a tap of the filters sees from neighbouring outputs then lie side by side. So a
// tap is an offset, and a convolution the product of filters, packed by strips of outputs, with vectors of pixels.
//
// The gradient of the image, and a transposed convolution, go by phases of what is computed: outputs of a phase see the
// same taps, and each phase is a convolution with stride 1 by these.
#pragma once

#include <type_traits>

#include "loop.h"
#include "products.h"
namespace unspool {

constexpr int64_t kNearest = 1 << 14;  // bytes of the first cache that the pixels of a tile's lines may take
constexpr int kAxes = 3;  // images with fewer have sizes of 1 in front

// What is computed in one go: all outputs, or one phase of them. Taps follow it, two numbers each: how far away its
// pixels are in the copy, and its place in a filter.
struct ConvolutionPart {
  int64_t taps;
  int64_t sizes[kAxes];    // of the outputs
  int64_t first;           // where the first of them is
  int64_t steps[kAxes];    // how far apart they are along each axis

  const int64_t* tap() const { return reinterpret_cast<const int64_t*>(this + 1); }
  const ConvolutionPart* next() const { return reinterpret_cast<const ConvolutionPart*>(tap() + 2 * taps); }
};

// Distances are counted in elements.
struct Convolution {
  int64_t groups, channels, outputs;                         // the last two of a group
  int64_t filter_group, filter_output, filter_channel;       // how far apart the filters are
  int64_t sizes[kAxes], image_channel, image[kAxes];         // of the image, and how far apart its pixels are
  int64_t before[kAxes];   // zeros in front of it in the copy; pixels that are left out if it is less than zero
  int64_t phases[kAxes];
  int64_t copied[kAxes];   // sizes of a phase in the copy
  int64_t plane;           // how far apart channels are in the copy
  int64_t out_channel;
  int64_t parts;

  const ConvolutionPart* part() const { return reinterpret_cast<const ConvolutionPart*>(this + 1); }
  int64_t phase() const { return copied[0] * copied[1] * copied[2]; }
};

// Outputs that a strip of `height` is computed with: few sizes, since each is code of its own.
inline int64_t padded_strip(int64_t height) { return height > 4 ? kRows : height > 2 ? 4 : height; }

// The outputs of a group with those that the last strip has besides.
inline int64_t padded_outputs(const Convolution& c) {
  const int64_t rest = c.outputs % kRows;
  return c.outputs - rest + padded_strip(rest);
}

inline int64_t packed_filters(const Convolution& c) {
  int64_t taps = 0;
  const ConvolutionPart* part = c.part();
  for (int64_t p = 0; p < c.parts; p++, part = part->next()) taps += part->taps;
  return taps * c.channels * c.groups * padded_outputs(c);
}

// By strips of outputs, with zeros for those that are not there.
template <typename T> void pack_filters(const Convolution& c, const T* filters, T* packed) {
  const ConvolutionPart* part = c.part();
  for (int64_t p = 0; p < c.parts; p++, part = part->next())
    for (int64_t g = 0; g < c.groups; g++)
      for (int64_t first = 0; first < c.outputs; first += kRows) {
        const int64_t height = c.outputs - first < kRows ? c.outputs - first : kRows;
        for (int64_t i = 0; i < c.channels; i++)
          for (int64_t t = 0; t < part->taps; t++)
            for (int64_t m = 0; m < padded_strip(height); m++)
              *packed++ = m < height ? filters[g * c.filter_group + (first + m) * c.filter_output +
                                               i * c.filter_channel + part->tap()[2 * t + 1]]
                                     : T(0);
      }
}

// Which places of a line of the copy have pixels, for one phase: what is at j is pixel phase + j * phases - before.
struct Inside {
  int64_t begin, end;

  Inside(const Convolution& c, int64_t phase) {
    const int64_t phases = c.phases[2], first = c.before[2] - phase, last = c.sizes[2] + first;
    begin = first <= 0 ? 0 : (first + phases - 1) / phases;
    end = last <= 0 ? 0 : (last + phases - 1) / phases;
    if (begin > c.copied[2]) begin = c.copied[2];
    if (end > c.copied[2]) end = c.copied[2];
    if (end < begin) end = begin;
  }
};

// A line with its zeros. Vectors of zeros may reach into the next line, which comes later.
template <typename T> inline void copy_line(const T* from, T* out, int64_t width, const Inside& inside) {
  using Vec = typename Vector<T>::Type;
  constexpr int64_t L = kLanes<T>;
  const int64_t begin = inside.begin, end = inside.end;
  for (int64_t j = 0; j < begin; j += L) *reinterpret_cast<Vec*>(out + j) = Vec{};
  if (end - begin >= L) {
    for (int64_t j = begin; j + L <= end; j += L)
      *reinterpret_cast<Vec*>(out + j) = *reinterpret_cast<const Vec*>(from + j);
    *reinterpret_cast<Vec*>(out + end - L) = *reinterpret_cast<const Vec*>(from + end - L);
  } else {
    for (int64_t j = begin; j < end; j++) out[j] = from[j];
  }
  for (int64_t j = end; j < width; j += L) *reinterpret_cast<Vec*>(out + j) = Vec{};
}

// What lies between channels and behind the last one is zero too, since vectors reach there.
template <typename T> void copy_image(const Convolution& c, const T* image, T* copy) {
  const int64_t* const phases = c.phases;
  const int64_t channels = c.groups * c.channels, width = c.copied[2];
  const int64_t used = phases[0] * phases[1] * phases[2] * c.phase();
  const bool plain = phases[2] == 1 && c.image[2] == 1;
  for (int64_t i = 0; i < channels; i++) {
    T* out = copy + i * c.plane;
    for (int64_t f = 0; f < phases[0] * phases[1] * phases[2]; f++) {
      const int64_t fz = f / phases[2] / phases[1], fy = f / phases[2] % phases[1], fx = f % phases[2];
      const Inside inside(c, fx);
      for (int64_t z = 0; z < c.copied[0]; z++)
        for (int64_t y = 0; y < c.copied[1]; y++, out += width) {
          const int64_t at_z = fz + z * phases[0] - c.before[0], at_y = fy + y * phases[1] - c.before[1];
          const bool has_pixels = at_z >= 0 && at_z < c.sizes[0] && at_y >= 0 && at_y < c.sizes[1];
          const T* const from = image + i * c.image_channel + at_z * c.image[0] + at_y * c.image[1] +
                                (fx - c.before[2]) * c.image[2];
          if (has_pixels && plain) {
            copy_line(from, out, width, inside);
          } else {
            std::memset(out, 0, width * sizeof(T));
            if (has_pixels)
              for (int64_t j = inside.begin; j < inside.end; j++) out[j] = from[j * phases[2] * c.image[2]];
          }
        }
    }
    std::memset(out, 0, (c.plane - used + (i + 1 == channels ? kPanel<T> : 0)) * sizeof(T));
  }
}

// What is added to a convolution: an image like the outputs, a number for each channel, or nothing.
template <typename T> struct Added {
  const T* first;
  int64_t channel;
  bool per_pixel;
};

// Calls `body(place in the tile, place among the outputs, count)` for the pieces of lines that are in `width` pixels of
// the copy from `begin` on.
template <typename Body>
void pieces_of(const Convolution& c, const ConvolutionPart& part, int64_t begin, int64_t width, Body&& body) {
  const int64_t y_apart = c.copied[2], z_apart = c.copied[1] * c.copied[2];
  for (int64_t z = begin / z_apart; z < part.sizes[0] && z * z_apart < begin + width; z++) {
    const int64_t from = begin - z * z_apart;
    for (int64_t y = from > 0 ? from / y_apart : 0; y < part.sizes[1]; y++) {
      const int64_t line = z * z_apart + y * y_apart;
      if (line >= begin + width) break;
      const int64_t first = line > begin ? line : begin;
      const int64_t last = line + part.sizes[2] < begin + width ? line + part.sizes[2] : begin + width;
      if (first < last)
        body(first - begin, z * part.steps[0] + y * part.steps[1] + (first - line) * part.steps[2], last - first);
    }
  }
}

// Some outputs: what is computed of them, and from what.
template <typename T> struct Strip {
  const Convolution& c;
  const ConvolutionPart& part;
  const int64_t* places;       // of the taps, for one channel after another
  const T* pixels;             // of their group
  const T* filters;
  Added<T> added;
  T* out;
  bool runs_on;                // from line to line
  int64_t height;

  int64_t terms() const { return c.channels * part.taps; }
};

// M outputs by V vectors of pixels, summed in registers: a block of the terms at a time, since what is added to a large
// sum is rounded to its last digits. Whoever calls it has where they start from and where they go.
template <typename T, int M, int V>
__attribute__((noinline)) void pixel_tile(int64_t terms, const int64_t* places, const T* pixels, const T* filters,
                                          const Added<T>& added, T* out, int64_t out_apart) {
  using Vec = typename Vector<T>::Type;
  constexpr int64_t L = kLanes<T>;
  Vec sums[M][V], before[M][V];
  for (int m = 0; m < M; m++)
    for (int v = 0; v < V; v++) {
      const T* const start = added.first + m * added.channel;
      sums[m][v] = !added.first       ? Vec{}
                   : added.per_pixel ? *reinterpret_cast<const Vec*>(start + v * L)
                                     : *start + Vec{};
    }
  const int64_t blocks = terms <= kTerms ? 1 : (terms + kTerms - 1) / kTerms;
  for (int64_t b = 0; b < blocks; b++) {
    if (b)
      for (int m = 0; m < M; m++)
        for (int v = 0; v < V; v++) {
          before[m][v] = b > 1 ? before[m][v] + sums[m][v] : sums[m][v];
          sums[m][v] = Vec{};
        }
    for (int64_t k = terms * b / blocks; k < terms * (b + 1) / blocks; k++) {
      const T* const here = pixels + places[k];
      Vec right[V];
      for (int v = 0; v < V; v++) right[v] = *reinterpret_cast<const Vec*>(here + v * L);
      for (int m = 0; m < M; m++)
        for (int v = 0; v < V; v++) sums[m][v] += filters[k * M + m] * right[v];
    }
  }
  if (blocks > 1)
    for (int m = 0; m < M; m++)
      for (int v = 0; v < V; v++) sums[m][v] += before[m][v];
  for (int m = 0; m < M; m++)
    for (int v = 0; v < V; v++) *reinterpret_cast<Vec*>(out + m * out_apart + v * L) = sums[m][v];
}

// Pixels that are pieces of lines, or lie apart from each other, or are of fewer outputs than a tile has.
template <typename T, int M, int V> void broken_tile(const Strip<T>& strip, int64_t begin, int64_t width) {
  constexpr int64_t W = V * kLanes<T>;
  alignas(kBytes) T whole[M * W];
  const Added<T>& added = strip.added;
  const int64_t apart = strip.part.steps[2];
  std::memset(whole, 0, sizeof(whole));
  if (added.first)
    pieces_of(strip.c, strip.part, begin, width, [&](int64_t at, int64_t place, int64_t count) {
      for (int64_t m = 0; m < strip.height; m++)
        for (int64_t j = 0; j < count; j++)
          whole[m * W + at + j] = added.first[m * added.channel + (added.per_pixel ? place + j * apart : 0)];
    });
  pixel_tile<T, M, V>(strip.terms(), strip.places, strip.pixels + begin, strip.filters, {whole, W, true}, whole, W);
  pieces_of(strip.c, strip.part, begin, width, [&](int64_t at, int64_t place, int64_t count) {
    for (int64_t m = 0; m < strip.height; m++)
      for (int64_t j = 0; j < count; j++)
        strip.out[m * strip.c.out_channel + place + j * apart] = whole[m * W + at + j];
  });
}

// How many pixels of the copy the outputs of a part are, with what lies between their lines.
inline int64_t pixels_between(const Convolution& c, const ConvolutionPart& part) {
  return ((part.sizes[0] - 1) * c.copied[1] + part.sizes[1] - 1) * c.copied[2] + part.sizes[2];
}

// Whether it takes fewer vectors to go on from line to line, over what lies between, than to begin each line anew.
template <typename T> bool runs_on(const Convolution& c, const ConvolutionPart& part) {
  const int64_t by_lines = part.sizes[0] * part.sizes[1] * ((part.sizes[2] + kLanes<T> - 1) / kLanes<T>);
  const int64_t at_once = (pixels_between(c, part) + kLanes<T> - 1) / kLanes<T>;
  return 10 * by_lines > 11 * at_once;  // what is broken has to be put together
}

// M outputs by `count` pixels of the copy, which are one line or several with what lies between them.
template <typename T, int M> void output_strip(const Strip<T>& strip, int64_t begin, int64_t count, int64_t place) {
  constexpr int64_t L = kLanes<T>, W = kPanel<T>;
  const bool whole = !strip.runs_on && strip.part.steps[2] == 1 && strip.height == M;
  auto tile = [&](auto vectors, int64_t x) {
    Added<T> added = strip.added;
    if (added.first && added.per_pixel) added.first += place + x;
    const T* const pixels = strip.pixels + begin + x;
    pixel_tile<T, M, decltype(vectors)::value>(strip.terms(), strip.places, pixels, strip.filters, added,
                                               strip.out + place + x, strip.c.out_channel);
  };
  for (int64_t x = 0; x < count; x += W) {
    const int64_t left = count - x < W ? count - x : W;
    if (whole && left == W)
      tile(std::integral_constant<int, kVectors>{}, x);
    else if (whole && left == L)
      tile(std::integral_constant<int, 1>{}, x);
    else if (left > L)
      broken_tile<T, M, kVectors>(strip, begin + x, left);
    else
      broken_tile<T, M, 1>(strip, begin + x, left);
  }
}

template <typename T> void any_strip(const Strip<T>& strip, int64_t begin, int64_t count, int64_t place) {
  switch (padded_strip(strip.height)) {
    case 1: return output_strip<T, 1>(strip, begin, count, place);
    case 2: return output_strip<T, 2>(strip, begin, count, place);
    case 4: return output_strip<T, 4>(strip, begin, count, place);
    default: return output_strip<T, kRows>(strip, begin, count, place);
  }
}

// Lines whose pixels, with those above and below that their outputs see, stay in the first cache for all strips.
template <typename T> int64_t lines_at_once(const Convolution& c, const ConvolutionPart& part) {
  const int64_t line = c.channels * c.copied[2] * static_cast<int64_t>(sizeof(T));
  const int64_t fitting = kNearest / line - (c.copied[1] - part.sizes[1]);
  return fitting < 1 ? 1 : fitting < part.sizes[1] ? fitting : part.sizes[1];
}

// `body(strip)` for a share of the strips of a part.
template <typename T, typename Body>
void every_strip(const Strip<T>& all, int64_t share, int64_t shares, Body&& body) {
  const Convolution& c = all.c;
  const int64_t each = (c.outputs + kRows - 1) / kRows, count = c.groups * each;
  for (int64_t n = count * share / shares; n < count * (share + 1) / shares; n++) {
    const int64_t g = n / each, first = n % each * kRows, output = g * c.outputs + first;
    Strip<T> strip = all;
    strip.pixels += g * c.channels * c.plane;
    strip.filters += (g * padded_outputs(c) + first) * all.terms();
    strip.out += output * c.out_channel;
    strip.height = c.outputs - first < kRows ? c.outputs - first : kRows;
    if (strip.added.first) strip.added.first += output * strip.added.channel;
    body(strip);
  }
}

// A share of the outputs of one row.
template <typename T>
void convolve_row(const Convolution& c, const T* copy, int64_t* places, const T* filters, const Added<T>& added, T* out,
                  int64_t share, int64_t shares) {
  const ConvolutionPart* part = c.part();
  for (int64_t p = 0; p < c.parts; p++, part = part->next()) {
    const int64_t* const sizes = part->sizes;
    for (int64_t i = 0; i < c.channels; i++)
      for (int64_t t = 0; t < part->taps; t++) places[i * part->taps + t] = i * c.plane + part->tap()[2 * t];
    Strip<T> all{c, *part, places, copy, filters, added, out + part->first, runs_on<T>(c, *part), 0};
    if (added.first && added.per_pixel) all.added.first += part->first;
    if (all.runs_on) {
      const int64_t pixels = pixels_between(c, *part);
      constexpr int64_t block = 4 * kPanel<T>;
      for (int64_t begin = 0; begin < pixels; begin += block)
        every_strip(all, share, shares, [&](const Strip<T>& strip) {
          any_strip(strip, begin, pixels - begin < block ? pixels - begin : block, 0);
        });
    } else {
      const int64_t step = lines_at_once<T>(c, *part);
      for (int64_t z = 0; z < sizes[0]; z++)
        for (int64_t begin = 0; begin < sizes[1]; begin += step)
          every_strip(all, share, shares, [&](const Strip<T>& strip) {
            for (int64_t y = begin; y < begin + step && y < sizes[1]; y++)
              any_strip(strip, (z * c.copied[1] + y) * c.copied[2], sizes[2],
                        z * part->steps[0] + y * part->steps[1]);
          });
    }
    filters += all.terms() * c.groups * padded_outputs(c);
  }
}

template <typename T>
void convolve(const Convolved<T>& what, T* out, char* scratch, int64_t share, int64_t shares) {
  T* const copy = reinterpret_cast<T*>(scratch);
  copy_image(*what.how, what.image, copy);
  const Added<T> added{what.added, what.added_channel, what.per_pixel};
  // Behind the copy, and what vectors may reach beyond it.
  const int64_t copied = what.how->groups * what.how->channels * what.how->plane;
  const auto places = reinterpret_cast<int64_t*>(copy + copied + kPanel<T>);
  convolve_row(*what.how, copy, places, what.filters, added, out, share, shares);
}
}  // namespace unspool
