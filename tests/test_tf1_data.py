"""Datasets beyond what `tests/tf1_inputs` compares with TensorFlow: orders, errors, threads, strings in a run."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import unspool.tf1 as tf
from unspool.tf1.string_values import Strings


def elements(dataset: Any, most: int = 100) -> list[Any]:
    iterator = dataset.make_initializable_iterator()
    element, found = iterator.get_next(), []
    with tf.Session() as session:
        session.run(iterator.initializer)
        try:
            while len(found) < most:
                found.append(session.run(element))
        except tf.errors.OutOfRangeError:
            pass
    return found


def numbers(dataset: Any) -> list[int]:
    return [int(each) for each in elements(dataset)]


# -- random orders ---------------------------------------------------------------------------------------------------


def test_a_shuffled_element_comes_from_those_that_wait():
    found = numbers(tf.data.Dataset.range(50).shuffle(5, seed=1))
    assert sorted(found) == list(range(50))
    assert found != list(range(50))
    assert all(number < place + 5 for place, number in enumerate(found))


def test_epochs_are_shuffled_anew_unless_that_is_not_wanted():
    again = numbers(tf.data.Dataset.range(10).shuffle(10, seed=3).repeat(2))
    same = numbers(tf.data.Dataset.range(10).shuffle(10, seed=3, reshuffle_each_iteration=False).repeat(2))
    assert sorted(again[:10]) == sorted(again[10:]) == list(range(10))
    assert again[:10] != again[10:]
    assert same[:10] == same[10:]


def test_a_seed_makes_an_order_repeatable():
    with tf.Graph().as_default():
        one = numbers(tf.data.Dataset.range(20).shuffle(20, seed=7))
    with tf.Graph().as_default():
        other = numbers(tf.data.Dataset.range(20).shuffle(20, seed=7))
    with tf.Graph().as_default():
        third = numbers(tf.data.Dataset.range(20).shuffle(20, seed=8))
    assert one == other != third


def test_an_order_without_a_seed_is_that_of_torch():
    def drawn() -> list[int]:
        torch.manual_seed(5)
        with tf.Graph().as_default():
            return numbers(tf.data.Dataset.range(20).shuffle(20))

    assert drawn() == drawn()


def test_shuffle_and_repeat_has_every_element_in_each_epoch():
    found = numbers(tf.data.Dataset.range(6).apply(tf.contrib.data.shuffle_and_repeat(6, 2, seed=1)))
    assert sorted(found[:6]) == sorted(found[6:]) == list(range(6))


def test_files_are_listed_by_pattern(tmp_path: Path):
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).write_text(name)
    ordered = elements(tf.data.Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False))
    assert [Path(each.decode()).name for each in ordered] == ["a.txt", "b.txt"]
    assert sorted(elements(tf.data.Dataset.list_files(str(tmp_path / "*.txt")))) == ordered
    with pytest.raises(tf.errors.NotFoundError, match="No files matched pattern"):
        tf.data.Dataset.list_files(str(tmp_path / "*.png"))


# -- what is computed, and when --------------------------------------------------------------------------------------


def test_a_cache_computes_each_element_once():
    calls: list[int] = []

    def note(value: Any) -> Any:
        calls.append(int(value))
        return value

    mapped = tf.data.Dataset.range(3).map(lambda x: tf.py_func(note, [x], tf.int64))
    assert numbers(mapped.cache().repeat(3)) == [0, 1, 2] * 3
    assert calls == [0, 1, 2]


def test_an_element_is_computed_when_it_is_asked_for():
    calls: list[int] = []

    def generator() -> Any:
        for number in range(5):
            calls.append(number)
            yield number

    element = tf.data.Dataset.from_generator(generator, tf.int32, []).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert calls == []
        session.run(element)
        session.run(element)
    assert calls == [0, 1]


def test_a_captured_variable_is_read_when_the_iterator_begins():
    offset = tf.Variable(10, dtype=tf.int64)
    value = tf.identity(offset)
    iterator = tf.data.Dataset.range(3).map(lambda x: x + value).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(iterator.initializer)
        assert session.run(element) == 10
        session.run(offset.assign(20))
        assert session.run(element) == 11
        session.run(iterator.initializer)
        assert session.run(element) == 20


def test_gradients_go_through_what_is_computed_of_an_element():
    x = tf.data.Dataset.from_tensors([1.0, 2.0]).repeat().make_one_shot_iterator().get_next()
    weight = tf.get_variable("weight", [2], initializer=tf.ones_initializer())
    train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(weight * x))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run(weight), [0.5, 0.0])


def test_random_numbers_of_a_map_differ_from_element_to_element_and_not_from_session_to_session():
    dataset = tf.data.Dataset.range(4).map(lambda _: tf.random_uniform([], seed=1))
    one, other = elements(dataset), elements(dataset)
    assert len(set(one)) == 4
    assert one == other


# -- errors ----------------------------------------------------------------------------------------------------------


def test_an_error_on_the_way_does_not_look_like_the_end():
    dataset = tf.data.Dataset.range(4).map(lambda x: tf.py_func(lambda v: np.int64(6 // (int(v) - 1)), [x], tf.int64))
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(element) == -6
        for _ in range(2):
            with pytest.raises(tf.errors.UnknownError, match="ZeroDivisionError"):
                session.run(element)


def test_what_a_generator_raises_is_an_error_of_the_run():
    def generator() -> Any:
        yield 1
        raise KeyError("lost")

    element = tf.data.Dataset.from_generator(generator, tf.int32, []).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        session.run(element)
        with pytest.raises(tf.errors.UnknownError, match="KeyError: 'lost'"):
            session.run(element)


def test_python_functions_end_a_sequence_by_stop_iteration():
    values = iter([1, 2])
    number = tf.py_func(lambda: np.int64(next(values)), [], tf.int64)
    with tf.Session() as session:
        assert [int(session.run(number)) for _ in range(2)] == [1, 2]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(number)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda d: d.flat_map(lambda x: x), TypeError, "`map_func` must return a `Dataset`"),
        (lambda d: d.batch(0), ValueError, "batch_size must be greater than zero, but is 0"),
        (lambda d: d.padded_batch(2, ([], [])), ValueError, "a shape for every part of an element"),
        (lambda d: d.padded_batch(2, [3]), ValueError, r"The padded shape \(3,\) is not compatible"),
        (
            lambda d: d.apply(tf.data.experimental.group_by_window(lambda x: 1.0, lambda k, w: w, 2)),
            ValueError,
            "int64",
        ),
        (lambda d: d.zip([d, d]), TypeError, "nested structure of `Dataset`"),
        (lambda d: tf.data.TextLineDataset("x", "LZMA"), ValueError, "compression_type"),
        (lambda d: tf.data.Dataset.range(1, 2, 3, 4), ValueError, "1 to 3 numbers, but got 4"),
    ],
)
def test_a_mistake_names_what_came(make: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        make(tf.data.Dataset.range(3))


def test_a_variable_needs_an_iterator_that_is_initialized():
    with pytest.raises(ValueError, match="make_initializable_iterator"):
        tf.data.Dataset.from_tensors(tf.Variable([1.0])).make_one_shot_iterator()


def test_a_handle_must_be_one_of_the_session():
    handle = tf.placeholder(tf.string, [])
    element = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="no handle of an iterator"):
        session.run(element, {handle: "iterator"})


# -- threads ---------------------------------------------------------------------------------------------------------


def test_threads_that_share_an_iterator_take_each_element_once():
    element = tf.data.Dataset.range(400).map(lambda x: x * 2).make_one_shot_iterator().get_next()
    found: list[list[int]] = [[] for _ in range(4)]
    with tf.Session() as session:

        def take(own: list[int]) -> None:
            try:
                while True:
                    own.append(int(session.run(element)))
            except tf.errors.OutOfRangeError:
                pass

        threads = [threading.Thread(target=take, args=(own,), daemon=True) for own in found]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
        assert not any(each.is_alive() for each in threads)
    assert sorted(number for own in found for number in own) == list(range(0, 800, 2))


# -- strings in a run ------------------------------------------------------------------------------------------------


def test_strings_of_several_tables_meet():
    one, other = Strings.of([["a", "b"]]), Strings.of([["b", "c"]])
    assert torch.cat([one, other]).tolist() == [[b"a", b"b"], [b"b", b"c"]]
    assert (one == other).tolist() == [[False, False]]
    assert (one[:, 1:] == other[:, :1]).tolist() == [[True]]
    assert torch.where(torch.tensor([[True, False]]), one, other).tolist() == [[b"a", b"c"]]


def test_empty_strings_keep_their_shape():
    nothing = Strings.of(np.empty((0, 3), object))
    assert nothing.shape == (0, 3)
    assert torch.cat([nothing, Strings.of([["a", "b", "c"]])]).tolist() == [[b"a", b"b", b"c"]]


def test_strings_are_not_numbers():
    with pytest.raises(TypeError, match="not defined for strings"):
        torch.exp(Strings.of(["a"]))
    with pytest.raises(TypeError, match="expected strings, but got 1"):
        Strings.of([1])


def test_strings_survive_pickling():
    assert pickle.loads(pickle.dumps(Strings.of(["a", "ä"]))).tolist() == [b"a", "ä".encode()]


def test_what_is_fed_for_a_string_must_be_one():
    x = tf.placeholder(tf.string, [None], name="words")
    with tf.Session() as session:
        with pytest.raises(TypeError, match="the value for Tensor 'words:0' is not made of strings"):
            session.run(x, {x: [1, 2]})
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            session.run(x, {x: "word"})


def test_strings_go_through_loops():
    words = tf.constant(["a", "b", "c"])
    joined = tf.while_loop(lambda k, text: k < 3, lambda k, text: (k + 1, text + words[k]), (0, tf.constant("")))[1]
    mapped = tf.map_fn(lambda word: tf.strings.length(word + "-"), words, tf.int32)
    with tf.Session() as session:
        assert session.run(joined) == b"abc"
        assert session.run(mapped).tolist() == [2, 2, 2]


def test_what_is_computed_of_a_few_strings_does_not_depend_on_how_many_there_were():
    many = Strings.of([f"word {number}" for number in range(1000)])
    few = many[3:5]
    calls: list[bytes] = []
    assert few.mapped(lambda word: calls.append(word) or len(word)).tolist() == [6, 6]
    assert calls == [b"word 3", b"word 4"]
    assert len(torch.cat([few, Strings.of(["end"])]).table) == 3


def test_a_state_keeps_its_structure() -> None:
    with pytest.raises(TypeError, match="the new state"):
        tf.data.Dataset.range(3).reduce(tf.constant(0, tf.int64), lambda state, x: (state, x))


def test_options_are_options() -> None:
    with pytest.raises(TypeError, match=r"options must be a tf.data.Options, but is 3"):
        tf.data.Dataset.range(3).with_options(3)
