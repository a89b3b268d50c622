"""`tf.data.Dataset`: elements that come one by one, and what to do to them on the way."""

from __future__ import annotations

import glob
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from unspool.structure import Structure, flatten, map_structure
from unspool.tf1.data import batching, sources, stages
from unspool.tf1.data.elements import Stage, shapes_of, types_of
from unspool.tf1.data.reducing import reduced
from unspool.tf1.data.stages import Options
from unspool.tf1.dtypes import int64
from unspool.tf1.errors import NotFoundError
from unspool.tf1.operations import as_tensor
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.data.iterators import Iterator


class Dataset:
    """Elements that come one by one; each is a tensor, or a structure of them.

    >>> from unspool import tf1 as tf
    >>> dataset = tf.data.Dataset.range(10).filter(lambda x: x % 2 > 0).map(lambda x: x * x).batch(2)
    >>> element = dataset.make_one_shot_iterator().get_next()
    >>> with tf.Session() as session:
    ...     print(element.shape, session.run(element), session.run(element))
    (?,) [1 9] [25 49]
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    # -- where elements come from ------------------------------------------------------------------------------------

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """A dataset of one element: these tensors."""
        return Dataset(sources.Tensors(tensors))

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """A dataset of the slices of tensors along their first axis.

        Raises:
            ValueError: if a tensor has no axis, or one has another number of slices.
        """
        return Dataset(sources.Slices(tensors))

    @staticmethod
    def from_generator(
        generator: Callable[..., Any], output_types: Any, output_shapes: Any = None, args: Any = None
    ) -> Dataset:
        """A dataset of what a Python generator yields.

        Args:
            generator: takes the values of `args` to what is iterated over; called whenever a reading begins.
            output_types: dtypes, in the structure of what it yields.
            output_shapes: shapes in the same structure; unknown by default.
            args: tensors.

        Raises:
            InvalidArgumentError: in a run, if something of another structure, dtype or shape is yielded.
        """
        return Dataset(sources.Generated(generator, output_types, output_shapes, args))

    @staticmethod
    def range(*args: Any) -> Dataset:
        """The numbers of `range(...)`, as int64."""
        return Dataset(sources.Numbers(*args))

    @staticmethod
    def zip(datasets: Structure) -> Dataset:
        """Elements of several datasets side by side, in the tuple or dict in which the datasets are.

        Raises:
            TypeError: if `datasets` is no tuple or dict of datasets.
        """
        if isinstance(datasets, list) or not all(isinstance(each, Dataset) for each in flatten(datasets)):
            raise TypeError(
                "The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects, in tuples and dicts, "
                f"but is {datasets!r}"
            )
        return Dataset(stages.Zipped(map_structure(lambda each: each.stage, datasets)))

    @staticmethod
    def list_files(file_pattern: Any, shuffle: bool | None = None, seed: int | None = None) -> Dataset:
        """The names of the files that match patterns, in a random order unless `shuffle` is False."""
        patterns = [file_pattern] if isinstance(file_pattern, str) else list(file_pattern)
        found = sorted(each for pattern in patterns for each in glob.glob(pattern))
        if not found:
            raise NotFoundError(None, None, f"No files matched pattern: {', '.join(patterns)}")
        made = Dataset.from_tensor_slices(found)
        return made if shuffle is False else made.shuffle(len(found), seed)

    # -- what becomes of each ----------------------------------------------------------------------------------------

    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None) -> Dataset:
        """What a function makes of each element; of a tuple it takes the parts one by one.

        Args:
            map_func: takes tensors to a tensor, or a structure of them.
            num_parallel_calls: accepted; results never depend on it.
        """
        return Dataset(stages.Mapped(self.stage, map_func))

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements for which a predicate is true; `ValueError` if it makes no scalar of bool."""
        return Dataset(stages.Filtered(self.stage, predicate))

    def flat_map(self, map_func: Callable[..., Any]) -> Dataset:
        """The elements of the datasets that a function makes of elements, one dataset after the other.

        >>> from unspool import tf1 as tf
        >>> pairs = tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]])
        >>> element = pairs.flat_map(tf.data.Dataset.from_tensor_slices).make_one_shot_iterator().get_next()
        >>> with tf.Session() as session:
        ...     [int(session.run(element)) for _ in range(4)]
        [1, 2, 3, 4]
        """
        return Dataset(stages.Flattened(self.stage, map_func))

    def interleave(
        self, map_func: Callable[..., Any], cycle_length: Any, block_length: Any = 1, num_parallel_calls: Any = None
    ) -> Dataset:
        """The elements of the datasets that a function makes, blocks of each in turn.

        Args:
            map_func: takes an element to a dataset.
            cycle_length: how many datasets are under way at a time.
            block_length: how many elements come of each before it is the next one's turn.
            num_parallel_calls: accepted; results never depend on it.
        """
        return Dataset(stages.Interleaved(self.stage, map_func, cycle_length, block_length))

    def enumerate(self, start: Any = 0) -> Dataset:
        """Pairs of a number, counted from `start`, and an element."""
        last = 2**63 - 1
        return Dataset.zip((Dataset.range(start, last), self))

    # -- which of them, and in what order ----------------------------------------------------------------------------

    def concatenate(self, dataset: Dataset) -> Dataset:
        """These elements, then those of another dataset; `TypeError` if those are of other dtypes."""
        return Dataset(stages.Concatenated(self.stage, dataset.stage))

    def repeat(self, count: Any = None) -> Dataset:
        """The elements so many times; for ever if `count` is None or -1."""
        return Dataset(stages.Repeated(self.stage, -1 if count is None else count))

    def take(self, count: Any) -> Dataset:
        """The first elements; all of them for -1."""
        return Dataset(stages.Taken(self.stage, count))

    def skip(self, count: Any) -> Dataset:
        """All but the first elements; none for -1."""
        return Dataset(stages.Skipped(self.stage, count))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Every `num_shards`-th element, beginning with number `index`.

        Raises:
            InvalidArgumentError: in a run, if there is no such shard.
        """
        return Dataset(stages.Sharded(self.stage, num_shards, index))

    def shuffle(self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: bool | None = None) -> Dataset:
        """Elements in a random order: each is drawn from `buffer_size` that wait.

        Args:
            buffer_size: how many wait.
            seed: makes the order repeatable; the draws are ours, not TensorFlow's.
            reshuffle_each_iteration: whether every repetition has an order of its own; True by default.
        """
        return Dataset(stages.Shuffled(self.stage, buffer_size, seed, reshuffle_each_iteration is not False))

    def cache(self, filename: Any = "") -> Dataset:
        """The same elements, computed once as long as an iterator is not initialised again.

        Args:
            filename: accepted; elements are kept in memory.
        """
        return Dataset(stages.Cached(self.stage))

    def prefetch(self, buffer_size: Any) -> Dataset:
        """The same elements: `buffer_size` is accepted, and results never depend on it."""
        as_tensor(buffer_size, int64)
        return Dataset(self.stage)

    # -- several as one ----------------------------------------------------------------------------------------------

    def batch(self, batch_size: Any, drop_remainder: Any = False) -> Dataset:
        """Elements stacked, so many at a time.

        Args:
            batch_size: how many.
            drop_remainder: whether a last batch of fewer is left out; then the size of batches is known.

        Raises:
            InvalidArgumentError: in a run, if their shapes differ.
        """
        return Dataset(batching.Batched(self.stage, batch_size, drop_remainder))

    def padded_batch(
        self, batch_size: Any, padded_shapes: Any = None, padding_values: Any = None, drop_remainder: Any = False
    ) -> Dataset:
        """Elements of several shapes, filled up to one and stacked.

        Args:
            batch_size: how many.
            padded_shapes: shapes in the structure of elements; None in one for the largest size of the batch.
            padding_values: what to fill with; zeros and empty strings by default.
            drop_remainder: whether a last batch of fewer is left out.

        Raises:
            ValueError: if a shape cannot hold the elements.
            DataLossError: in a run, if an element does not fit.

        >>> from unspool import tf1 as tf
        >>> rows = tf.data.Dataset.range(1, 4).map(lambda n: tf.fill([n], n)).padded_batch(3, [None])
        >>> tf.Session().run(rows.make_one_shot_iterator().get_next())
        array([[1, 0, 0],
               [2, 2, 0],
               [3, 3, 3]])
        """
        return Dataset(batching.Padded(self.stage, batch_size, padded_shapes, padding_values, drop_remainder))

    def unbatch(self) -> Dataset:
        """The rows of elements, one by one."""
        return Dataset(batching.Unbatched(self.stage))

    def window(self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: bool = False) -> Dataset:
        """Datasets of `size` elements each, for `flat_map`.

        Args:
            size: how many elements.
            shift: after how many elements the next one begins; `size` by default.
            stride: every how many-th element it takes.
            drop_remainder: whether shorter ones at the end are left out.
        """
        return Dataset(stages.Windows(self.stage, size, size if shift is None else shift, stride, drop_remainder))

    # -- the dataset itself ------------------------------------------------------------------------------------------

    def apply(self, transformation_func: Callable[[Dataset], Any]) -> Dataset:
        """What a function makes of the dataset; `TypeError` if it is no dataset."""
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise TypeError(f"`transformation_func` must return a Dataset, but returned {made!r}")
        return made

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Structure:
        """What is left of a state when all elements have changed it, one after the other.

        Args:
            initial_state: a tensor, or a structure of them.
            reduce_func: `reduce_func(state, element)`, the state after an element.

        Raises:
            TypeError: if the function returns another structure, or other dtypes, than it is given.

        >>> from unspool import tf1 as tf
        >>> tf.Session().run(tf.data.Dataset.range(5).reduce(tf.constant(0, tf.int64), lambda total, x: total + x))
        np.int64(10)
        """
        return reduced(self.stage, initial_state, reduce_func)

    def with_options(self, options: Options) -> Dataset:
        """The same dataset with options, which have no effect."""
        return Dataset(stages.Optional(self.stage, options))

    def options(self) -> Options:
        """The options of the dataset and of those that it is made of."""
        return stages.options_of(self.stage)

    def make_one_shot_iterator(self) -> Iterator:
        """An iterator that goes through the dataset once, and needs no initialisation.

        Raises:
            ValueError: if the dataset reads a placeholder, or a variable.
        """
        from unspool.tf1.data.iterators import one_shot

        return one_shot(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """An iterator that begins whenever its `initializer` runs."""
        from unspool.tf1.data.iterators import initializable

        return initializable(self)

    @property
    def output_types(self) -> Structure:
        """The dtypes of an element, in its structure."""
        return types_of(self.stage.element)

    @property
    def output_shapes(self) -> Structure:
        """The shapes of an element, in its structure."""
        return shapes_of(self.stage.element)

    @property
    def output_classes(self) -> Structure:
        """`tf.Tensor`, in the structure of an element."""
        return map_structure(lambda _: Tensor, self.stage.element)

    def __iter__(self) -> Any:
        raise RuntimeError("dataset.__iter__() is only supported when eager execution is enabled: make an iterator")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {stages.described_elements(self.stage)}>"
