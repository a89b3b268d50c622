"""Names that a value cannot have in the emitted code: words of C++ and CUDA, and what loops call their own."""

RESERVED = {
    *("and", "auto", "bool", "case", "catch", "char", "class", "const", "default", "delete", "do", "double", "else"),
    *("enum", "float", "for", "if", "int", "long", "new", "not", "operator", "or", "register", "return", "short"),
    *("signed", "static", "struct", "switch", "template", "this", "typename", "union", "unsigned", "using", "void"),
    *("chunk", "worker", "rows", "row", "start", "time", "k", "q", "unspool", "std", "steps", "xor", "begin"),
    *("tile", "first", "mine", "memory", "scratch", "step", "next", "turn", "item", "own", "r", "unit", "there"),
    *("here", "lane", "at", "term", "other", "from", "found", "sum", "so_far", "place", "how", "core", "i"),
    *("warp", "team", "nth", "far", "slot", "pass", "copies"),
}
