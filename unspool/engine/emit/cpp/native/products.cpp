// Products of one type, ELEMENT, compiled once for a machine where a loop has them.

#include "products.h"
#include "row_sums.h"

extern "C" {

void unspool_multiply(int64_t rows, int64_t depth, int64_t width, const ELEMENT* left, int64_t left_apart,
                      const ELEMENT* panels, const ELEMENT* added, int64_t added_apart, ELEMENT* out, int64_t out_apart,
                      int64_t share, int64_t shares) {
  unspool::multiply(rows, depth, width, left, left_apart, panels, added, added_apart, out, out_apart, share, shares);
}
int64_t unspool_packed(int64_t depth, int64_t width) {
  return unspool::panels_of<ELEMENT>(width) * unspool::kPanel<ELEMENT> * depth;
}
void unspool_pack(int64_t depth, int64_t width, const ELEMENT* matrix, int64_t down, int64_t right, ELEMENT* panels) {
  unspool::pack(depth, width, matrix, down, right, panels);
}
void unspool_sum_share(const unspool::Sums<ELEMENT>& sums, char* scratch, int64_t share, int64_t shares) {
  unspool::sum_products(sums, scratch, share, shares);
}
int64_t unspool_sum_scratch(const unspool::Sums<ELEMENT>& sums) { return unspool::sum_scratch(sums); }
}
