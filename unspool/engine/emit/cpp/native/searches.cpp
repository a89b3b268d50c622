// Searches for the largest entries of products, compiled once for a machine where a loop has them.

#include "largest.h"

extern "C" {

void unspool_search_share(int64_t rows, const unspool::Search& search, char* scratch, int64_t share, int64_t shares,
                          unspool::Found* found) {
  unspool::search_share(rows, search, scratch, share, shares, found);
}
int64_t unspool_search_scratch(int64_t depth) { return unspool::search_scratch(depth); }
int64_t unspool_search_bytes(int64_t depth, int64_t width) { return unspool::search_bytes(depth, width); }
void unspool_pack_search(int64_t depth, int64_t width, const float* columns, void* packed) {
  unspool::pack_search(depth, width, columns, packed);
}
}
