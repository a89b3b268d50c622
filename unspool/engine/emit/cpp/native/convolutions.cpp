// Convolutions of one type, ELEMENT, compiled once for a machine where a loop has them.

#include "convolutions.h"
#include "correlations.h"

extern "C" {

void unspool_convolve(const unspool::Convolved<ELEMENT>& what, ELEMENT* out, char* scratch, int64_t share,
                      int64_t shares) {
  unspool::convolve(what, out, scratch, share, shares);
}
void unspool_correlate(const unspool::Correlated<ELEMENT>& what, double* sums, char* scratch, int64_t share,
                       int64_t shares) {
  unspool::correlate(what, sums, scratch, share, shares);
}
int64_t unspool_packed_filters(const unspool::Convolution* how) { return unspool::packed_filters(*how); }
void unspool_pack_filters(const unspool::Convolution* how, const ELEMENT* filters, ELEMENT* packed) {
  unspool::pack_filters(*how, filters, packed);
}
}
