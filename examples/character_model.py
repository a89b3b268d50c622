"""A character-level language model of Python's own documentation: trained, measured, drawn, and asked to write.

    make demo                                      # about a minute on two cores; nothing to download
    python examples/character_model.py --steps 40  # about ten seconds

The documentation ships with Python. Its paragraphs have different lengths, which is what this example is about:
`dynamic_rnn` trains on batches of them as they are, by `sequence_length`, and `dynamic_decode` writes new ones, each
until it ends by itself. Both run the same cell.
"""

from __future__ import annotations

import argparse
import math
import platform
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text
from torch import Tensor, nn
from torch.nn import functional as F

import unspool

END = 0  # the token that closes every paragraph, and so also the one before a paragraph's first character
LONGEST = 300  # characters; longer paragraphs are left out, since a batch takes as many steps as its longest one
WRITE_AT_MOST = 400  # characters, for a paragraph that does not end by itself

# Of what was tried, these reach the fewest held-out bits in a minute. A minute allows few updates, so each must count:
# small batches, a high learning rate, and a GRU, which learned faster here than an LSTM of its size, in cheaper steps.
UNITS, EMBEDDING = 256, 64
BATCH_SIZE, STEPS = 32, 400
LEARNING_RATE = 8e-3


class Batch(NamedTuple):
    """Paragraphs side by side, in padding that nothing reads."""

    inputs: Tensor  # [batch, time, 1]: END, then the paragraph
    targets: Tensor  # [batch, time]: the paragraph, then END
    lengths: Tensor  # [batch]


class Sample(NamedTuple):
    """A paragraph that the model wrote."""

    text: str
    ended: bool  # by itself, not by WRITE_AT_MOST


@dataclass
class Report:
    """What a run found, in bits per character of the held-out paragraphs, their ends included."""

    unigram_bits: float
    model_bits: float
    held_out_bits: list[tuple[int, float]]  # (step, bits), beginning with the untrained model
    samples: list[Sample]
    picture: Path


def main(arguments: Sequence[str] | None = None) -> Report:
    """Trains the model, shows what it has learned, and has it write."""
    parser = argparse.ArgumentParser(description="Train a character model on Python's documentation, and let it write.")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"batches to train on (default {STEPS})")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the samples (default 0)")
    parser.add_argument("--out", type=Path, default=Path("demo-output/character_model.png"), help="where to draw")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error(f"--steps must be at least 1, but is {options.steps}")
    console = Console(highlight=False)
    shuffler = random.Random(options.seed)
    torch.manual_seed(options.seed)

    everything = read_paragraphs()
    texts = [text for text in everything if len(text) <= LONGEST]
    shuffler.shuffle(texts)
    characters = ["", *sorted(set("".join(texts)))]  # a character's token is its place in this list; END's is 0
    tokens = {character: token for token, character in enumerate(characters)}
    paragraphs = [torch.tensor([*(tokens[character] for character in text), END]) for text in texts]
    held_out, training = paragraphs[: len(texts) // 10], paragraphs[len(texts) // 10 :]
    subject = f"the documentation of Python {platform.python_version()}"
    console.print(f"[bold]A character model of {subject}[/bold]")
    console.print(f"{len(training):,} paragraphs to learn from, {len(held_out)} held out to be tested on")
    console.print(f"({len(everything) - len(texts)} are longer than {LONGEST} characters and left out)\n")

    # The whole model is one cell, from tokens to logits, so that training and writing run the very same step.
    cell = unspool.OutputProjectionWrapper(
        unspool.EmbeddingWrapper(unspool.GRUCell(UNITS), embedding_classes=len(characters), embedding_size=EMBEDDING),
        output_size=len(characters),
    )
    training_bits, held_out_bits = train(cell, batches(training, shuffler), held_out, options.steps, console)
    unigram_bits, model_bits = unigram(training, held_out, len(characters)), held_out_bits[-1][1]
    console.print()
    console.print(comparison(len(characters), unigram_bits, model_bits))

    options.out.parent.mkdir(parents=True, exist_ok=True)
    draw(training_bits, held_out_bits, unigram_bits, subject).savefig(options.out, dpi=160)
    console.print(f"How it got there: [bold]{options.out}[/bold]\n", soft_wrap=True)

    samples = write(cell, characters, count=6, temperature=0.6)
    console.print(written_by(samples))
    return Report(unigram_bits, model_bits, held_out_bits, samples, options.out)


def read_paragraphs() -> list[str]:
    """All paragraphs, with line breaks as spaces and without the rules under headings.

    Topics quote each other, so each paragraph is taken once: a held-out one must be new to the model.
    """
    pieces = (piece for topic in topics.values() for piece in topic.split("\n\n"))
    texts = (" ".join(re.sub(r"[*=~^-]{4,}", " ", piece).split()) for piece in pieces)
    return list(dict.fromkeys(filter(None, texts)))


def batch_of(paragraphs: list[Tensor]) -> Batch:
    """A batch of these paragraphs."""
    targets = nn.utils.rnn.pad_sequence(paragraphs, batch_first=True)
    inputs = F.pad(targets, (1, -1), value=END)  # the token before each target
    return Batch(inputs.unsqueeze(2), targets, torch.tensor([len(paragraph) for paragraph in paragraphs]))


def batches(paragraphs: list[Tensor], shuffler: random.Random) -> Iterator[Batch]:
    """Batches of paragraphs of similar lengths, in random order, for ever.

    Sorting eight batches' worth at a time leaves little padding, yet who meets whom changes from round to round.
    """
    while True:
        order, pool_size = shuffler.sample(paragraphs, len(paragraphs)), 8 * BATCH_SIZE
        pools = [sorted(order[start : start + pool_size], key=len) for start in range(0, len(order), pool_size)]
        groups = [group for pool in pools for group in in_groups(pool)]
        yield from map(batch_of, shuffler.sample(groups, len(groups)))


def in_groups(paragraphs: list[Tensor]) -> list[list[Tensor]]:
    """BATCH_SIZE of them at a time."""
    return [paragraphs[start : start + BATCH_SIZE] for start in range(0, len(paragraphs), BATCH_SIZE)]


def train(
    cell: unspool.RNNCell, training: Iterator[Batch], held_out: list[Tensor], steps: int, console: Console
) -> tuple[list[float], list[tuple[int, float]]]:
    """Trains the cell; returns the bits per character of every batch, and of `held_out` now and then."""
    evaluations = {round(steps * (k / 12) ** 2) for k in range(13)}  # densest at first, where most is learned
    held_out_bits, training_bits = [(0, evaluate(cell, held_out))], list[float]()
    optimizer = torch.optim.Adam(cell.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    columns = (
        *(TextColumn("Training"), BarColumn(20), MofNCompleteColumn()),
        TextColumn("[cyan]{task.fields[bits]:.2f}[/] bits/char (held out [bold cyan]{task.fields[held_out]:.2f}[/])"),
        TextColumn("{task.fields[speed]:,.0f} chars/s"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=steps, bits=held_out_bits[0][1], held_out=held_out_bits[0][1], speed=0)
        seen, started = 0, time.perf_counter()
        for step, batch in zip(range(1, steps + 1), training, strict=False):
            optimizer.zero_grad()
            loss = bits(cell, batch) / batch.lengths.sum()
            loss.backward()
            nn.utils.clip_grad_norm_(cell.parameters(), 1.0)
            optimizer.step()
            schedule.step()

            training_bits.append(loss.item())
            if step in evaluations:
                held_out_bits.append((step, evaluate(cell, held_out)))
            seen += int(batch.lengths.sum())
            speed = seen / (time.perf_counter() - started)
            progress.update(task, advance=1, bits=training_bits[-1], held_out=held_out_bits[-1][1], speed=speed)
    return training_bits, held_out_bits


def bits(cell: unspool.RNNCell, batch: Batch) -> Tensor:
    """How many bits the model needs for all the targets; padding is not among them."""
    logits, _ = unspool.dynamic_rnn(cell, batch.inputs, sequence_length=batch.lengths, dtype=torch.float32)
    real = torch.arange(batch.targets.shape[1]) < batch.lengths.unsqueeze(1)
    return F.cross_entropy(logits[real], batch.targets[real], reduction="sum") / math.log(2)


@torch.no_grad()
def evaluate(cell: unspool.RNNCell, paragraphs: list[Tensor]) -> float:
    """Bits per character over all of `paragraphs`."""
    groups = in_groups(sorted(paragraphs, key=len))
    return sum(bits(cell, batch_of(group)).item() for group in groups) / sum(map(len, paragraphs))


def unigram(training: list[Tensor], held_out: list[Tensor], classes: int) -> float:
    """Bits per character for who knows how frequent each token is in training, and nothing else."""
    counts = torch.cat(training).bincount(minlength=classes) + 1  # one more than seen: nothing is impossible
    return -(counts / counts.sum()).log2()[torch.cat(held_out)].mean().item()


class Pen(unspool.SampleEmbeddingHelper):
    """Draws tokens until one is END; the first is another, since there are no empty paragraphs."""

    def __init__(self, count: int, temperature: float) -> None:
        super().__init__(as_column, [END] * count, END, softmax_temperature=temperature)

    def sample(self, time: int, outputs: Tensor, state: Any) -> Tensor:
        """A token for each row, from its logits."""
        if time == 0:
            outputs = outputs.index_fill(1, torch.tensor(END), -math.inf)
        return super().sample(time, outputs, state)


def as_column(tokens: Tensor) -> Tensor:
    """What the cell reads; it embeds tokens itself."""
    return tokens.unsqueeze(1)


@torch.no_grad()
def write(cell: unspool.RNNCell, characters: list[str], count: int, temperature: float) -> list[Sample]:
    """New paragraphs, token by token, until every one of them has ended."""
    decoder = unspool.BasicDecoder(cell, Pen(count, temperature), cell.zero_state(count, torch.float32))
    outputs, _, _ = unspool.dynamic_decode(decoder, maximum_iterations=WRITE_AT_MOST)
    rows: list[list[int]] = outputs.sample_id.tolist()  # past a row's own end, more of END
    return [Sample("".join(characters[token] for token in row), ended=END in row) for row in rows]


def comparison(classes: int, unigram_bits: float, model_bits: float) -> Table:
    """The model beside what it has to beat. With n bits, one is as unsure as among 2^n equally likely characters."""
    table = Table("held-out characters predicted from")
    table.add_column("bits per character", justify="right")
    table.add_column("unsure among", justify="right")
    table.add_row("the alphabet alone", f"{math.log2(classes):.2f}", f"{classes:.1f}")
    table.add_row("character frequencies (unigram)", f"{unigram_bits:.2f}", f"{2**unigram_bits:.1f}")
    table.add_row("all characters before (this model)", f"{model_bits:.2f}", f"{2**model_bits:.1f}", style="bold cyan")
    return table


def written_by(samples: list[Sample]) -> Table:
    """The model's paragraphs, and which of them had to be cut."""
    table = Table("paragraphs by the model, each written until it chose to end", show_lines=True)
    for sample in samples:
        table.add_row(Text(sample.text + ("" if sample.ended else f" ... [no end after {WRITE_AT_MOST} characters]")))
    return table


def draw(training_bits: list[float], held_out_bits: list[tuple[int, float]], unigram_bits: float, of: str) -> Figure:
    """Bits per character over training, against the unigram baseline."""
    blue, pale, grey = "#1f6feb", "#9cc2f8", "#6e7781"
    steps, held_out = zip(*held_out_bits, strict=True)
    figure = Figure(figsize=(9, 5), layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15))
    axes = figure.subplots()
    axes.axhline(unigram_bits, color=grey, linestyle="dashed")
    axes.plot(range(1, len(training_bits) + 1), training_bits, color=pale, linewidth=1)
    axes.plot(steps, held_out, color=blue, linewidth=2.5, marker="o", markersize=5, clip_on=False, zorder=3)

    # Each line is named where it ends; a legend would have to be looked up.
    recent = training_bits[-20:]
    labels = [
        (unigram_bits, f"{unigram_bits:.2f} bits: unigram,\ncharacter frequencies", grey, "normal"),
        (held_out[-1], f"{held_out[-1]:.2f} bits:\nheld-out paragraphs", blue, "bold"),
        (min(sum(recent) / len(recent), held_out[-1] - 0.6), "training batches", "#5c9bf5", "normal"),
    ]
    for height, text, color, weight in labels:
        end, margin = (steps[-1], height), (10, 0)
        axes.annotate(text, end, margin, textcoords="offset points", va="center", color=color, weight=weight)
    axes.set(xlim=(0, steps[-1]), ylim=(0, 1.05 * max(held_out)))
    axes.set(xlabel=f"training steps, each on {BATCH_SIZE} paragraphs", ylabel="bits per character (less is better)")
    axes.set_title(f"A GRU learns to predict {of}", loc="left", weight="bold", size=14, pad=12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    return figure


if __name__ == "__main__":
    main()
