"""Summaries: what is written is what TensorBoard reads, and what TensorFlow would have written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unspool import tf1 as tf
from unspool.tf1 import summary
from unspool.tf1.errors import InvalidArgumentError

pytest.importorskip("tensorboard")


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def decoded(data: bytes) -> Any:
    return summary.Summary.FromString(data).value


def events(folder: Path) -> list[Any]:
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

    found = [event for path in sorted(folder.iterdir()) for event in RawEventFileLoader(str(path)).Load()]
    return [each for each in map(summary.Event.FromString, found) if each.HasField("summary")]


def test_a_scalar_is_its_name_in_the_scope_and_its_value() -> None:
    with tf.name_scope("train"):
        made = [summary.scalar("loss", tf.constant(0.5)), summary.scalar("loss", tf.constant(2))]
    found = [decoded(data)[0] for data in tf.Session().run(made)]
    assert [(each.tag, each.simple_value) for each in found] == [("train/loss", 0.5), ("train/loss_1", 2.0)]


def test_a_family_stands_before_the_name() -> None:
    (value,) = decoded(tf.Session().run(summary.scalar("my loss", tf.constant(1.0), family="all")))
    assert value.tag == "all/all/my_loss"  # TensorFlow's


def test_a_histogram_has_tensorflow_s_buckets() -> None:
    made = summary.histogram("spread", tf.placeholder_with_default(np.array([1, 2, -3, 0, 1e-13, 5e21]), [6]))
    (value,) = decoded(tf.Session().run(made))
    histo = value.histo
    assert (histo.min, histo.max, histo.num) == (-3.0, 5e21, 6)
    # What TensorFlow 2.21 writes.
    limits = [
        -3.1665833053880363,
        -2.8787120958073054,
        0.0,
        1e-12,
        0.917246389039776,
        1.0089710279437536,
        1.9661990955585713,
        2.1628190051144287,
        9.920775621859783e19,
        1.7976931348623157e308,
    ]
    assert list(histo.bucket_limit) == limits
    assert list(histo.bucket) == [0, 1, 0, 2, 0, 1, 0, 1, 0, 1]


def test_a_histogram_of_nothing_has_one_empty_bucket() -> None:
    (value,) = decoded(tf.Session().run(summary.histogram("none", tf.zeros([0]))))
    assert (value.histo.num, list(value.histo.bucket)) == (0, [0.0])


def test_a_histogram_of_what_is_not_finite_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="Nan or infinity in summary histogram for: spread"):
        tf.Session().run(summary.histogram("spread", tf.constant([np.nan])))


def test_all_summaries_are_merged() -> None:
    assert summary.merge_all() is None
    for name in ("one", "other"):
        summary.scalar(name, tf.constant(1.0))
    summary.scalar("apart", tf.constant(1.0), collections=["mine"])
    found = decoded(tf.Session().run(summary.merge_all()))
    assert [each.tag for each in found] == ["one", "other"]
    assert [each.tag for each in decoded(tf.Session().run(summary.merge_all("mine")))] == ["apart"]


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    x = tf.placeholder(tf.float32, [])
    summary.scalar("loss", x)
    merged = summary.merge_all()
    session = tf.Session()
    with summary.FileWriter(str(tmp_path), session.graph) as writer:
        for step in range(3):
            writer.add_summary(session.run(merged, {x: step * 0.5}), step)
    found = [
        (event.step, event.summary.value[0].tag, event.summary.value[0].simple_value) for event in events(tmp_path)
    ]
    assert found == [(0, "loss", 0.0), (1, "loss", 0.5), (2, "loss", 1.0)]


def test_a_message_made_by_hand_is_written(tmp_path: Path) -> None:
    writer = summary.FileWriter(str(tmp_path))
    value = summary.Summary.Value(tag="own", simple_value=2.0)
    writer.add_summary(summary.Summary(value=[value]), global_step=np.int64(7))
    writer.flush()
    (event,) = events(tmp_path)
    assert (event.step, event.summary.value[0].tag) == (7, "own")
    writer.close()


def test_a_writer_can_be_opened_again(tmp_path: Path) -> None:
    writer = summary.FileWriter(str(tmp_path))
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match=r"is closed; reopen\(\) begins another file"):
        writer.add_summary(summary.Summary())
    writer.reopen()
    writer.add_summary(summary.Summary(value=[summary.Summary.Value(tag="again", simple_value=1.0)]))
    writer.close()
    assert [event.summary.value[0].tag for event in events(tmp_path)] == ["again"]


def test_a_scalar_must_be_one_number() -> None:
    with pytest.raises(ValueError, match=r"tensor must be a scalar.*\(2,\)"):
        summary.scalar("loss", tf.zeros([2]))


def test_without_tensorboard_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        summary.FileWriter(str(tmp_path))


def test_characters_that_no_name_has_are_replaced():
    with tf.Graph().as_default():
        made = [
            tf.summary.histogram("embedding/W:0/grad/hist", tf.zeros([2])),
            tf.summary.scalar("/a loss (x)", 1.0, family="the family"),
        ]
        texts = [tf.Summary.FromString(each).value[0].tag for each in tf.Session().run(made)]
    assert [each.name for each in made] == ["embedding/W_0/grad/hist:0", "the_family/a_loss__x_:0"]
    assert texts == ["embedding/W_0/grad/hist", "the_family/the_family/a_loss__x_"]
