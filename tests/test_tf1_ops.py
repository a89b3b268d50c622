"""Every operation of `unspool.tf1` is TensorFlow's: values, dtypes, static shapes, gradients, errors and their time.

What TensorFlow makes of each call was noted by `conformance/tf1_ops.py`.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.tf1_ops import CALLS
from tests.tf1_ops.call import kind_of
from tests.tf1_ops.compare import differences, noted
from tests.tf1_ops.on_purpose import ON_PURPOSE
from unspool import tf1
from unspool.tf1 import nn

EVERY = [(subject, name) for subject, calls in CALLS.items() for name in calls]


@pytest.mark.parametrize(("subject", "name"), [each for each in EVERY if each not in ON_PURPOSE])
def test_call_is_as_in_tensorflow(subject: str, name: str):
    assert differences(subject, name) == []


@pytest.mark.parametrize(("subject", "name"), ON_PURPOSE)
def test_what_differs_on_purpose_still_differs(subject: str, name: str):
    assert differences(subject, name)


@pytest.mark.parametrize("subject", CALLS)
def test_every_call_was_noted(subject: str):
    assert noted(subject).keys() == CALLS[subject].keys()


class Recorder:
    """A module that remembers what was asked of it."""

    def __init__(self, module: ModuleType, asked: set[str]) -> None:
        self._module, self._asked = module, asked

    def __getattr__(self, name: str) -> Any:
        self._asked.add(name)
        found = getattr(self._module, name)
        return Recorder(found, self._asked) if isinstance(found, ModuleType) else found


def test_every_operation_is_called():
    asked: set[str] = set()
    recorder = Recorder(tf1, asked)
    for calls in CALLS.values():
        for call in calls.values():
            with tf1.Graph().as_default():
                fed = [tf1.placeholder(kind_of(each), each.shape) for each in call.values]
                try:
                    call.function(recorder, *fed)
                except Exception:
                    continue  # some calls are mistakes
    modules = ["array", "creation", "slicing", "joining", "reductions", "products", "math", "nn", "classes"]
    modules += [
        "diagonals",
        "scattering",
        "segments",
        "ctc",
        "ctc_decoding",
        "candidates",
        "sampled_losses",
        "convolutions",
    ]
    modules += ["pooling"]
    rooms = [f"ops.{each}" for each in modules]
    rooms += [f"sparse.{each}" for each in ("dense", "embeddings", "layout", "tensor")]
    names = {name for each in rooms for name in vars(__import__(f"unspool.tf1.{each}", fromlist=["*"]))}
    public = {name for module in (tf1, nn) for name in vars(module) if name in names or f"{name}_" in names}
    functions = {name for name in public if isinstance(getattr(tf1, name, getattr(nn, name, None)), FunctionType)}
    assert functions - asked == {"as_dtype", "placeholder", "sparse_placeholder"}
