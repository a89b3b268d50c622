"""The demo in examples/, for a few steps."""

import importlib
import math
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def demo():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("character_model")
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def report(demo, tmp_path_factory):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps this small wait for a second thread, above all where tests run side by side
    try:
        return demo.main(["--steps", "3", "--out", str(tmp_path_factory.mktemp("demo") / "new" / "picture.png")])
    finally:
        torch.set_num_threads(threads)


def test_the_model_learns(report):
    (first, untrained), *_, (last, trained) = report.held_out_bits
    assert (first, last) == (0, 3)
    assert trained == report.model_bits
    assert all(math.isfinite(bits) for _, bits in report.held_out_bits)
    assert trained < untrained


def test_the_unigram_baseline_is_below_the_untrained_model(report):
    assert 0 < report.unigram_bits < report.held_out_bits[0][1]


def test_the_picture_is_a_png(report):
    assert report.picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_every_sample_ends_or_is_cut(demo, report):
    assert report.samples
    for sample in report.samples:
        assert 0 < len(sample.text) <= demo.WRITE_AT_MOST
        assert sample.ended or len(sample.text) == demo.WRITE_AT_MOST


def test_no_paragraph_begins_with_its_end(demo):
    pen, logits = demo.Pen(count=3, temperature=1.0), torch.zeros(3, 5)
    logits[:, demo.END] = 50
    assert (pen.sample(0, logits, state=()) != demo.END).all()
    assert (pen.sample(1, logits, state=()) == demo.END).all()


def test_every_paragraph_is_read_once(demo):
    paragraphs = demo.read_paragraphs()
    assert len(paragraphs) == len(set(paragraphs))
    assert all(paragraphs)


def test_a_batch_shifts_its_targets_by_one(demo):
    batch = demo.batch_of([torch.tensor([5, 6, demo.END]), torch.tensor([7, demo.END])])
    assert batch.inputs.squeeze(2).tolist() == [[demo.END, 5, 6], [demo.END, 7, demo.END]]
    assert batch.targets.tolist() == [[5, 6, demo.END], [7, demo.END, 0]]
    assert batch.lengths.tolist() == [3, 2]
