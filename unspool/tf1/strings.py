"""`tf.strings`: operations on strings, which are bytes."""

from __future__ import annotations

from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.ops.strings import as_string as as_string
from unspool.tf1.ops.strings import reduce_join as reduce_join
from unspool.tf1.ops.strings import regex_full_match as regex_full_match
from unspool.tf1.ops.strings import regex_replace as regex_replace
from unspool.tf1.ops.strings import split as split
from unspool.tf1.ops.strings import string_join as join
from unspool.tf1.ops.strings import string_length as length
from unspool.tf1.ops.strings import string_lower as lower
from unspool.tf1.ops.strings import string_strip as strip
from unspool.tf1.ops.strings import string_to_hash_bucket_fast as to_hash_bucket_fast
from unspool.tf1.ops.strings import string_to_number as to_number
from unspool.tf1.ops.strings import string_upper as upper
from unspool.tf1.ops.strings import substr as substr

__all__ = [
    "as_string",
    "join",
    "length",
    "lower",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket_fast",
    "to_number",
    "upper",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.strings", name, globals())
