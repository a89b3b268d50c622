// Convolutions of a row's image with filters that all rows share: a thread has pixels of what comes of it.
#pragma once

namespace unspool {

// How filters go over images; there are three axes, of size 1 in front where an image has fewer.
struct Filters {
  int groups, channels, made;             // of a group: what it reads, and what it makes
  int taps[3], image[3], out[3];          // sizes
  int step[3], padding[3], dilation[3];
  int channel_apart, pixel_apart[3];      // of the image
  int added_channel, added_pixel;         // how far apart what is added is: by channel, by pixel
  bool spreads;                           // whether it is the transpose of that

  // The pixel that a place sees along an axis by a tap; -1 if none.
  UNSPOOL_DEVICE int seen(int axis, int place, int tap) const {
    const int at = spreads ? place + padding[axis] - tap * dilation[axis]
                           : place * step[axis] + tap * dilation[axis] - padding[axis];
    if (spreads && at % step[axis]) return -1;
    const int pixel = spreads ? at / step[axis] : at;
    return at >= 0 && pixel < image[axis] ? pixel : -1;
  }
};

template <typename Sum, typename I, typename F, typename A, typename O>
UNSPOOL_DEVICE void convolve(const Filters& how, int rows, const I* images, int64_t image_apart, const F* filters,
                             const A* added, int64_t added_apart, O* out, int64_t out_apart) {
  const int pixels = how.out[0] * how.out[1] * how.out[2], all = how.groups * how.made * pixels;
  const int covered = how.taps[0] * how.taps[1] * how.taps[2];
  for (int item = thread(); item < rows * all; item += THREADS) {
    const int r = item / all, own = item % all, made = own / pixels, group = made / how.made, pixel = own % pixels;
    const int z = pixel / (how.out[1] * how.out[2]), y = pixel / how.out[2] % how.out[1], x = pixel % how.out[2];
    const I* const image = images + r * image_apart + (int64_t)group * how.channels * how.channel_apart;
    Sum sum = added ? Sum(added[r * added_apart + made * how.added_channel + pixel * how.added_pixel]) : Sum(0);
    for (int c = 0; c < how.channels; c++) {
      const int64_t filter = how.spreads ? (int64_t)(group * how.channels + c) * how.made + made % how.made
                                         : (int64_t)made * how.channels + c;
      for (int tap = 0; tap < covered; tap++) {
        const int i = how.seen(0, z, tap / (how.taps[1] * how.taps[2]));
        const int j = how.seen(1, y, tap / how.taps[2] % how.taps[1]), k = how.seen(2, x, tap % how.taps[2]);
        if (i < 0 || j < 0 || k < 0) continue;
        const int at = i * how.pixel_apart[0] + j * how.pixel_apart[1] + k * how.pixel_apart[2];
        sum += Sum(image[c * how.channel_apart + at]) * Sum(filters[filter * covered + tap]);
      }
    }
    out[r * out_apart + own] = O(sum);
  }
}

}  // namespace unspool
