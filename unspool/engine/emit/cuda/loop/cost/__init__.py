"""Which tiling of a core is the cheapest."""
