// Products of halves of one type, ELEMENT, compiled once for a machine where a loop has them.

#include "products.h"
#include "row_sums.h"

extern "C" {

void unspool_multiply(int64_t rows, int64_t depth, int64_t width, const ELEMENT* left, int64_t left_apart,
                      const ELEMENT* panels, const unspool::Addend& added, const unspool::Outcome& out, int64_t share,
                      int64_t shares) {
  unspool::multiply_halves(rows, depth, width, left, left_apart, panels, added, out, share, shares);
}
int64_t unspool_packed(int64_t depth, int64_t width) {
  return unspool::panels_of<float>(width) * unspool::panel_bytes<ELEMENT>(depth) / sizeof(ELEMENT);
}
void unspool_pack(int64_t depth, int64_t width, const ELEMENT* matrix, int64_t down, int64_t right, ELEMENT* panels) {
  unspool::pack_halves(depth, width, matrix, down, right, reinterpret_cast<char*>(panels));
}
void unspool_sum_share(const unspool::Sums<ELEMENT>& sums, char* scratch, int64_t share, int64_t shares) {
  unspool::sum_products(sums, scratch, share, shares);
}
int64_t unspool_sum_scratch(const unspool::Sums<ELEMENT>& sums) { return unspool::sum_scratch(sums); }
}
