"""Dates as people write them, translated into ISO form by an encoder and a decoder with attention.

    python examples/translate_dates.py              # about a minute on two cores; nothing to download
    python examples/translate_dates.py --steps 200  # about fifteen seconds

"the 4th of March 1987" becomes "1987-03-04", and "march '87" becomes "1987-03": the model has to say itself where the
answer ends. `bidirectional_dynamic_rnn` reads the date; `AttentionWrapper` looks at what was read while it writes;
`dynamic_decode` runs it, in training on the right answers, then on its own, greedily and by beam search. The picture
shows where it looks.
"""

from __future__ import annotations

import argparse
import random
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F

import unspool


def listed(text: str) -> list[str]:
    """What stands between the bars."""
    return [part.strip() for part in text.split("|")]


# Forms of dates, by the length of the answer: "1987-03-04", "1987-03" or "1987". Each can be read in one way only: with
# slashes the month comes first, with dots the day, and a year of two digits is one of those from 1930 to 2029.
FORMS = {
    10: listed("""{yyyy}-{m}-{d} | {yyyy}/{mm}/{dd} | {yyyy}{mm}{dd} | {yyyy} {month} {d} | {yyyy}, {mon} {dth} |
        {m}/{d}/{yyyy} | {mm}/{dd}/{yyyy} | {m}/{d}/{yy} | {d}.{m}.{yyyy} | {dd}.{mm}.{yyyy} | {d}.{m}.{yy} |
        {d} {month} {yyyy} | {d} {mon} {yyyy} | {d} {mon} '{yy} | {dd}-{mon}-{yyyy} | {dth} {month} {yyyy} |
        {dth} of {month}, {yyyy} | the {dth} of {month} {yyyy} | {weekday}, the {dth} of {mon}. {yyyy} |
        {day} {dd} {mon} {yy} | {day}, {d} {mon} {yyyy} | {weekday}, {dth} of {month} {yyyy} | {day} {mon} {dd} {yyyy} |
        {month} {d} {yyyy} | {month} {d}, {yyyy} | {month} {dth}, {yyyy} | {mon} {d} {yyyy} | {mon}. {d}, '{yy} |
        {weekday}, {month} {d}, {yyyy} | {month} the {ordinal}, {yyyy} | the {ordinal} of {month}, {year} |
        {ordinal} of {month} {year} | {month} {ordinal}, {year}"""),
    7: listed("""{month} {yyyy} | {month}, {yyyy} | {month} of {yyyy} | {month} '{yy} | {mon} {yyyy} | {mon}. '{yy} |
        {m}/{yyyy} | {mm}.{yyyy} | {yyyy}-{m} | {yyyy} {month} | in {month} {yyyy} | {month} {year}"""),
    4: listed("{yyyy} | '{yy} | in {yyyy} | the year {yyyy} | the year '{yy} | anno {yyyy} | {year} | the year {year}"),
}
LONGEST = len("the twenty-seventh of September, nineteen seventy-seven")  # characters
FIRST_DAY, LAST_DAY = date(1930, 1, 1), date(2029, 12, 31)
MONTHS = listed("January|February|March|April|May|June|July|August|September|October|November|December")
WEEKDAYS = listed("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday")
ONES = listed("|one|two|three|four|five|six|seven|eight|nine")
TEENS = listed("ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen")
TENS = listed("twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety")
NUMBERS = [*ONES, *TEENS, *(f"{ten}-{one}".strip("-") for ten in TENS for one in ONES)]
FIRSTS = listed("first|second|third|fourth|fifth|sixth|seventh|eighth|ninth")
TENTHS = ["tenth", "eleventh", "twelfth", *(f"{number}th" for number in TEENS[3:]), "twentieth"]
ORDINALS = ["", *FIRSTS, *TENTHS, *(f"twenty-{each}" for each in FIRSTS), "thirtieth", "thirty-first"]

DRAWN = {  # what there is to see, and the form to see it in
    "in words": "the {ordinal} of {month}, {year}",
    "without the century": "{day} {dd} {mon} {yy}",
    "slashes: month first": "{m}/{d}/{yyyy}",
    "dots: day first": "{d}.{m}.{yyyy}",
    "without a day": "{month} of {yyyy}",
}
UNCLEAR = ["J?n 5, 1987", "ju? 1960", "3?.8.1994", "?1/12/2001"]  # ? is a smudge: each may be one of two dates

# A character's token is its place in its alphabet. END closes every answer, and so it also stands before each.
END = 0
LETTERS = ["", *string.ascii_letters, *string.digits, *" .,-/'?"]
ISO = ["", *string.digits, "-"]

UNITS, EMBEDDING = 64, 32
BATCH_SIZE, STEPS = 64, 2000
LEARNING_RATE = 4e-3
SMUDGED = 0.3  # the share of dates in training that have a smudge
HELD_OUT = 1000  # dates to be tested on
WRITE_AT_MOST = 12  # characters, for an answer that does not end by itself
BEAMS = 2


class Pair(NamedTuple):
    """A date, and the ISO form of what it says."""

    text: str
    iso: str


class Batch(NamedTuple):
    """Dates and their answers side by side, in padding that nothing reads."""

    texts: Tensor  # [batch, LONGEST]
    text_lengths: Tensor  # [batch]
    answers: Tensor  # [batch, time], each with END
    answer_lengths: Tensor  # [batch]


@dataclass
class Report:
    """What a run found."""

    losses: list[float]  # of every batch, in nats per character
    exact_matches: list[tuple[int, float]]  # (step, share of held-out dates without a mistake), from before training
    translations: list[tuple[Pair, str]]  # every held-out date, and what the model made of it
    unclear: dict[str, list[tuple[str, float]]]  # for each unclear date, the best answers and their probabilities
    picture: Path


class Translator(nn.Module):
    """Reads a date from both ends, then writes its answer, looking at what it has read."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.said = nn.Embedding(len(LETTERS), EMBEDDING), nn.Embedding(len(ISO), EMBEDDING)
        self.forwards, self.backwards = unspool.GRUCell(UNITS), unspool.GRUCell(UNITS)
        cell, self.attention = unspool.GRUCell(2 * UNITS), unspool.BahdanauAttention(2 * UNITS)
        self.writer = unspool.AttentionWrapper(cell, self.attention, attention_layer_size=2 * UNITS)
        self.logits = nn.Linear(2 * UNITS, len(ISO))

    def encode(self, texts: Tensor, lengths: Tensor) -> unspool.AttentionWrapperState:
        """Reads dates; returns the state to write their answers from."""
        outputs, states = unspool.bidirectional_dynamic_rnn(
            self.forwards, self.backwards, self.read(texts), sequence_length=lengths, dtype=torch.float32
        )
        self.attention.setup_memory(torch.cat(outputs, 2), lengths)
        return self.writer.zero_state(len(texts), torch.float32).clone(cell_state=torch.cat(states, 1))

    def loss(self, batch: Batch) -> Tensor:
        """Nats per character of the answers, with each character said after the right ones before it."""
        state = self.encode(batch.texts, batch.text_lengths)
        said_before = F.pad(batch.answers, (1, -1), value=END)
        helper = unspool.TrainingHelper(self.said(said_before), batch.answer_lengths)
        outputs, _, lengths = unspool.dynamic_decode(unspool.BasicDecoder(self.writer, helper, state, self.logits))
        return unspool.sequence_loss(outputs.rnn_output, batch.answers, unspool.sequence_mask(lengths))

    @torch.no_grad()
    def translate(self, texts: Sequence[str]) -> tuple[list[str], unspool.AttentionWrapperState]:
        """The answers, always saying the likeliest character next, and the state that they ended in."""
        state = self.encode(*as_tokens(texts))
        helper = unspool.GreedyEmbeddingHelper(self.said, [END] * len(texts), END)
        decoder = unspool.BasicDecoder(self.writer, helper, state, self.logits, keep_outputs=False)
        outputs, state, _ = unspool.dynamic_decode(decoder, maximum_iterations=WRITE_AT_MOST)
        return [as_iso(tokens) for tokens in outputs.sample_id], state

    @torch.no_grad()
    def search(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        """The likeliest answers for each date, best first, with their probabilities."""
        # Each beam has a state and a memory to itself. For a few dates, it is simplest to read them once for each.
        state, start = self.encode(*unspool.tile_batch(as_tokens(texts), BEAMS)), [END] * len(texts)
        decoder = unspool.BeamSearchDecoder(self.writer, self.said, start, END, state, BEAMS, self.logits)
        outputs, final_state, _ = unspool.dynamic_decode(decoder, maximum_iterations=WRITE_AT_MOST)
        best = decoder.n_best(outputs, final_state)
        rows = zip(best.predicted_ids, best.log_probs.exp().tolist(), strict=True)
        return [list(zip(map(as_iso, answers), probabilities, strict=True)) for answers, probabilities in rows]

    def look(self, text: str) -> tuple[str, Tensor]:
        """The answer, and how much of each character it looked at for each of its own: `[written, read]`."""
        self.writer.alignment_history = True  # not in training: with a history, the loop runs step by step
        (answer,), state = self.translate([text])
        self.writer.alignment_history = False
        return answer, state.alignment_history.stack()[:, 0, : len(text)]


def main(arguments: Sequence[str] | None = None) -> Report:
    """Trains the model, tests it on dates it has not seen, and draws where it looks."""
    parser = argparse.ArgumentParser(description="Train a model with attention to translate dates into ISO form.")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"batches to train on (default {STEPS})")
    parser.add_argument("--seed", type=int, default=0, help="of the dates and the weights (default 0)")
    parser.add_argument("--out", type=Path, default=Path("demo-output/translate_dates.png"), help="where to draw")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error(f"--steps must be at least 1, but is {options.steps}")
    console = Console(highlight=False)
    shuffler = random.Random(options.seed)
    torch.manual_seed(options.seed)

    known, unseen = split(shuffler)
    held_out = [random_pair(unseen, shuffler) for _ in range(HELD_OUT)]
    console.print(f"[bold]Dates in {sum(map(len, FORMS.values()))} forms, translated into ISO form[/bold]")
    console.print(f"{HELD_OUT:,} dates are held out to be tested on; no date in training has their answers\n")

    model = Translator()
    losses, exact_matches = train(model, batches(known, shuffler), held_out, options.steps, console)
    answers, _ = model.translate([pair.text for pair in held_out])
    translations = list(zip(held_out, answers, strict=True))
    unclear = dict(zip(UNCLEAR, model.search(UNCLEAR), strict=True))
    console.print()
    console.print(some_of(translations))
    console.print(likeliest(unclear))

    # A day that could be taken for the month, but for what stands between them.
    day = next(day for day in map(date.fromisoformat, unseen[10]) if day.month < day.day < 10 and day.year < 2000)
    texts = [form.format(**fields(day)) for form in DRAWN.values()]
    maps = [(note, text, *model.look(text)) for note, text in zip(DRAWN, texts, strict=True)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    draw([maps[:1], maps[1:]]).savefig(options.out, dpi=160)
    console.print(f"Where it looks: [bold]{options.out}[/bold]", soft_wrap=True)
    return Report(losses, exact_matches, translations, unclear, options.out)


def split(shuffler: random.Random) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """All answers, by their lengths: those to learn, and a tenth that no date in training comes to."""
    days = [FIRST_DAY + timedelta(days) for days in range((LAST_DAY - FIRST_DAY).days + 1)]
    known, unseen = dict[int, list[str]](), dict[int, list[str]]()
    for length in FORMS:
        answers = sorted({day.isoformat()[:length] for day in days})
        shuffler.shuffle(answers)
        unseen[length], known[length] = answers[: len(answers) // 10], answers[len(answers) // 10 :]
    return known, unseen


def random_pair(answers: dict[int, list[str]], shuffler: random.Random, smudged: float = 0.0) -> Pair:
    """One of the answers, and a date that says it, now and then with a character that cannot be read."""
    (length,) = shuffler.choices(list(FORMS), weights=[7, 2, 1])
    iso, form = shuffler.choice(answers[length]), shuffler.choice(FORMS[length])
    text = form.format(**fields(date.fromisoformat(iso + "1930-01-01"[length:])))
    text = shuffler.choice([text, text.lower(), text.upper()])
    if shuffler.random() < smudged:
        place = shuffler.randrange(len(text))
        text = f"{text[:place]}?{text[place + 1 :]}"
    return Pair(text, iso)


def fields(day: date) -> dict[str, str]:
    """What forms are made of. `strftime` would write in the language of the system."""
    month, weekday, ordinal = MONTHS[day.month - 1], WEEKDAYS[day.weekday()], ORDINALS[day.day]
    century, rest = divmod(day.year, 100)
    year = f"{NUMBERS[century]} {NUMBERS[rest]}"
    if 2000 <= day.year < 2010:
        year = f"two thousand and {NUMBERS[rest]}" if rest else "two thousand"
    return {
        **dict(d=f"{day.day}", dd=f"{day.day:02}", dth=f"{day.day}{ordinal[-2:]}", ordinal=ordinal),
        **dict(m=f"{day.month}", mm=f"{day.month:02}", mon=month[:3], month=month, day=weekday[:3], weekday=weekday),
        **dict(yy=f"{rest:02}", yyyy=f"{day.year}", year=year),
    }


def as_tokens(texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Dates as tokens, `[batch, LONGEST]`, and their lengths.

    Padded to the longest date there is, not to that of a batch: the decoder is planned for so many places to look at.
    """
    rows = [[LETTERS.index(letter) for letter in text] for text in texts]
    return torch.tensor([row + [0] * (LONGEST - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])


def as_iso(tokens: Tensor) -> str:
    """An answer from its tokens; END, and what follows it, is nothing."""
    return "".join(ISO[token] for token in tokens)


def batches(answers: dict[int, list[str]], shuffler: random.Random) -> Iterator[Batch]:
    """Batches of new dates, for ever."""
    while True:
        pairs = [random_pair(answers, shuffler, SMUDGED) for _ in range(BATCH_SIZE)]
        rows = [torch.tensor([*map(ISO.index, pair.iso), END]) for pair in pairs]
        texts, answer_lengths = as_tokens([pair.text for pair in pairs]), torch.tensor([len(row) for row in rows])
        yield Batch(*texts, nn.utils.rnn.pad_sequence(rows, batch_first=True), answer_lengths)


def train(
    model: Translator, training: Iterator[Batch], held_out: list[Pair], steps: int, console: Console
) -> tuple[list[float], list[tuple[int, float]]]:
    """Trains the model; returns the loss of every batch, and now and then the share of `held_out` it gets right."""
    evaluations = {round(steps * k / 20) for k in range(1, 21)}
    losses, exact_matches = list[float](), [(0, exact_match(model, held_out))]
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    columns = (
        *(TextColumn("Training"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn()),
        TextColumn("loss [cyan]{task.fields[loss]:.4f}[/], exact match [bold cyan]{task.fields[right]:.1%}[/]"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=steps, loss=float("nan"), right=exact_matches[0][1])
        for step, batch in zip(range(1, steps + 1), training, strict=False):
            optimizer.zero_grad()
            loss = model.loss(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()

            losses.append(loss.item())
            if step in evaluations:
                exact_matches.append((step, exact_match(model, held_out)))
            progress.update(task, advance=1, loss=losses[-1], right=exact_matches[-1][1])
    return losses, exact_matches


def exact_match(model: Translator, pairs: list[Pair]) -> float:
    """The share of dates that are translated without a mistake."""
    answers, _ = model.translate([pair.text for pair in pairs])
    return sum(answer == pair.iso for answer, pair in zip(answers, pairs, strict=True)) / len(pairs)


def some_of(translations: list[tuple[Pair, str]]) -> Table:
    """The first translations, and the first mistakes, if there are any."""
    mistakes = [(pair, answer) for pair, answer in translations if answer != pair.iso]
    table = Table("date", "answer", "", title=f"{len(mistakes)} of {len(translations)} held-out dates are wrong")
    for pair, answer in [*translations[:8], *(each for each in mistakes[:4] if each not in translations[:8])]:
        right = answer == pair.iso
        table.add_row(pair.text, answer, "right" if right else f"[bold red]wrong: it is {pair.iso}[/]")
    return table


def likeliest(unclear: dict[str, list[tuple[str, float]]]) -> Table:
    """What beam search finds where a character cannot be read."""
    table = Table("smudged date", "likeliest", "second likeliest")
    for text, found in unclear.items():
        table.add_row(text, *(f"{answer} ({probability:.0%})" for answer, probability in found))
    return table


def draw(maps: list[list[tuple[str, str, str, Tensor]]]) -> Figure:
    """Rows of maps (what there is to see, date, answer, how much was looked at), all with squares of one size."""
    ink, grey, pale = "#24292f", "#6e7781", "#d8dee4"
    square, left, gap, header, height = 0.2, 7, 6, 6.5, 16  # one square in inches; all else, of a row too, in squares
    wide = left + max(sum(len(text) + gap for _, text, _, _ in row) for row in maps) - gap / 2
    high = header + height * len(maps)
    figure = Figure(figsize=(square * wide, square * high))
    title = "Where the model looks when it translates a date"
    explanation = """Across: the date that it reads. Down: the answer that it writes, until it says that it is done.
The darker a square, the more it looks at that character of the date to write that one of the answer."""
    figure.text(1.5 / wide, 1 - 1.5 / high, title, size=16, weight="bold", color=ink, va="top")
    figure.text(1.5 / wide, 1 - 3.7 / high, explanation, size=11, color=grey, va="top", linespacing=1.5)
    for number, row in enumerate(maps):
        x, y = left, header + height * number + 3
        for note, text, answer, weights in row:
            rows, columns = weights.shape
            axes = figure.add_axes((x / wide, 1 - (y + rows) / high, columns / wide, rows / high))
            axes.pcolormesh(weights, cmap="Blues", vmin=0, vmax=1, edgecolors=pale, linewidth=0.5)
            axes.set_xticks(torch.arange(columns) + 0.5, text, family="monospace", size=12, color=ink)
            axes.set_yticks(torch.arange(rows) + 0.5, [*answer, "end"][:rows], family="monospace", size=12, color=ink)
            axes.set_title(note, loc="left", size=11, color=grey, pad=8)
            axes.tick_params(length=0, labeltop=True, labelbottom=False)
            axes.spines[:].set_color(pale)
            axes.invert_yaxis()
            x += columns + gap
    first = figure.axes[0]  # its arrows show how all are read
    first.text(-0.6, -0.35, "reads →", color=grey, ha="right")
    first.text(-2, 0.2, "writes →", color=grey, ha="right", va="top", rotation=270)
    return figure


if __name__ == "__main__":
    main()
