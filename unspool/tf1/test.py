"""`tf.test`: unit tests of graphs, and whether there is a GPU."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from unspool.tf1.graph import Graph, get_default_graph, reset_default_graph
from unspool.tf1.namespace import missing
from unspool.tf1.seeds import set_random_seed
from unspool.tf1.session import Session, get_default_session
from unspool.tf1.tensor import Operators

__all__ = [
    "TestCase",
    "get_temp_dir",
    "gpu_device_name",
    "is_built_with_cuda",
    "is_gpu_available",
    "main",
]

SEED = 87654321
"""Of every test, as in TensorFlow."""


class TestCase(unittest.TestCase):
    """A test with a graph of its own, seeds that are always the same, and comparisons of arrays.

    >>> from unspool import tf1 as tf
    >>> class Sums(tf.test.TestCase):
    ...     def test_sum(self):
    ...         with self.test_session():
    ...             self.assertAllClose(tf.reduce_sum([1.0, 2.0]).eval(), 3.0)
    >>> Sums("test_sum").run().wasSuccessful()
    True
    """

    __test__ = False  # it has no tests of its own; classes derived from it do

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__test__ = True

    def setUp(self) -> None:
        """Begins with an empty graph, and seeds."""
        reset_default_graph()
        set_random_seed(SEED)
        np.random.seed(SEED & 0xFFFF)
        self._temporary: str | None = None

    def get_temp_dir(self) -> str:
        """A folder for this test."""
        self._temporary = self._temporary or tempfile.mkdtemp()
        return self._temporary

    @contextmanager
    def session(
        self, graph: Graph | None = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Generator[Session, None, None]:
        """A session that is the default inside; on whose device it runs, torch says."""
        with (graph or get_default_graph()).as_default(), Session(graph=graph, config=config) as session:
            yield session

    test_session = cached_session = session

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors, in the session around."""
        session = get_default_session()
        return (Session() if session is None else session).run(tensors)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:  # noqa: N802
        """Two arrays have one shape, and the same elements; NaN equals NaN."""
        np.testing.assert_array_equal(self._array(a), self._array(b), err_msg=msg or "")

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:  # noqa: N802
        """Two arrays, or structures of them, have one shape, and elements that are about the same."""
        if isinstance(a, dict):
            self.assertEqual(set(a), set(b), msg)  # pyright: ignore[reportUnknownArgumentType]
            pairs: list[tuple[Any, Any]] = [(a[key], b[key]) for key in a]
        elif isinstance(a, list | tuple) and not _is_array(a):
            self.assertEqual(len(a), len(b), msg)  # pyright: ignore[reportUnknownArgumentType]
            pairs = list(zip(a, b, strict=True))
        else:
            one, other = self._array(a), self._array(b)
            self.assertEqual(one.shape, other.shape, msg)
            np.testing.assert_allclose(one, other, rtol, atol, err_msg=msg or "")
            return
        for one, other in pairs:
            self.assertAllClose(one, other, rtol, atol, msg)

    def assertShapeEqual(self, np_array: Any, tf_tensor: Any, msg: str | None = None) -> None:  # noqa: N802
        """An array has the shape that is known of a tensor."""
        self.assertEqual(list(np.shape(np_array)), tf_tensor.get_shape().as_list(), msg)

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:  # noqa: N802
        """Two numbers are no further apart than `err`."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, f"{f1} != {f2} +/- {err}{f' ({msg})' if msg else ''}")

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:  # noqa: N802
        """Two lists of numbers are no further apart than `err` in any place."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for one, other in zip(farray1, farray2, strict=True):
            self.assertNear(float(one), float(other), err, msg)

    def _array(self, value: Any) -> np.ndarray[Any, Any]:
        return np.asarray(self.evaluate(value) if isinstance(value, Operators) else value)


def _is_array(values: Any) -> bool:
    """Whether a list is one array, as nested lists of numbers are."""
    try:
        return np.asarray(values).dtype != object
    except ValueError:  # parts of different shapes
        return False


def main(argv: Any = None) -> None:
    """Runs the tests of the program, and exits."""
    unittest.main(argv=argv)


def get_temp_dir() -> str:
    """A folder for the files of tests."""
    return tempfile.mkdtemp()


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Whether torch can compute on a GPU; a session does so after `torch.set_default_device("cuda")`."""
    return torch.cuda.is_available()


def is_built_with_cuda() -> bool:
    """Whether torch was built for GPUs."""
    return torch.version.cuda is not None


def gpu_device_name() -> str:
    """TensorFlow's name for the first GPU; empty if there is none."""
    return "/device:GPU:0" if torch.cuda.is_available() else ""


def __getattr__(name: str) -> Any:
    raise missing("tf.test", name, globals())
