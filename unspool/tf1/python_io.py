"""`tf.python_io`: files of records."""

from __future__ import annotations

from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.records.files import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]


def __getattr__(name: str) -> Any:
    raise missing("tf.python_io", name, globals())
