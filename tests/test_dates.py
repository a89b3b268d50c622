"""The translator of dates in examples/: its dates, its batches, and a run of a few steps."""

import re
from datetime import date, timedelta
from random import Random
from string import Formatter

import pytest
import torch

from examples import translate_dates as dates

FORMS = [(length, form) for length, forms in dates.FORMS.items() for form in forms]
DAYS = [date(1999, 12, 31), date(2000, 1, 1), date(2000, 2, 29), date(2009, 11, 11), date(2010, 10, 10)] + [
    dates.FIRST_DAY + timedelta(days) for days in Random(0).sample(range(100 * 365), 50)
]

# What each field may look like, and what it says. The language of words is checked by itself below.
MONTHS = {word: month for month, word in enumerate(dates.MONTHS, start=1)}
ORDINALS = {dates.fields(date(2000, 1, day))["ordinal"]: day for day in range(1, 32)}
YEARS = {dates.fields(date(year, 1, 1))["year"]: year for year in range(1930, 2030)}
DAY, MONTH = {str(day): day for day in range(1, 32)}, {str(month): month for month in range(1, 13)}
FIELDS = {
    "d": ("day", DAY),
    "dd": ("day", {text.zfill(2): day for text, day in DAY.items()}),
    "dth": ("day", {text + ending: day for text, day in DAY.items() for ending in ("st", "nd", "rd", "th")}),
    "ordinal": ("day", ORDINALS),
    "m": ("month", MONTH),
    "mm": ("month", {text.zfill(2): month for text, month in MONTH.items()}),
    "mon": ("month", {word[:3]: month for word, month in MONTHS.items()}),
    "month": ("month", MONTHS),
    "yy": ("year", {f"{year % 100:02}": year for year in range(1930, 2030)}),
    "yyyy": ("year", {str(year): year for year in range(1930, 2030)}),
    "year": ("year", YEARS),
    "day": ("weekday", {word[:3]: weekday for weekday, word in enumerate(dates.WEEKDAYS)}),
    "weekday": ("weekday", {word: weekday for weekday, word in enumerate(dates.WEEKDAYS)}),
}


def pattern(form):
    parts = []
    for literal, field, _, _ in Formatter().parse(form):
        parts.append(re.escape(literal))
        if field:
            words = "|".join(map(re.escape, FIELDS[field][1]))
            parts.append(f"(?P<{field}>{words})")
    return re.compile("".join(parts), re.IGNORECASE)


PATTERNS = [(length, pattern(form)) for length, form in FORMS]


def readings(text):
    """Every answer that some form lets the text have."""
    found = set()
    for length, form in PATTERNS:
        match = form.fullmatch(text)
        if match:
            said = {"day": 1, "month": 1}
            for field, words in match.groupdict().items():
                kind, meanings = FIELDS[field]
                said[kind] = {word.lower(): meaning for word, meaning in meanings.items()}[words.lower()]
            weekday = said.pop("weekday", None)
            day = date(**said)
            assert weekday in (None, day.weekday()), text
            found.add(day.isoformat()[:length])
    return found


@pytest.mark.parametrize(("length", "form"), FORMS)
def test_a_date_in_any_form_can_be_read_in_one_way_only(length, form):
    for day in DAYS:
        text = form.format(**dates.fields(day))
        answers = {day.isoformat()[:length]}
        assert readings(text) == readings(text.lower()) == readings(text.upper()) == answers, text


def test_every_year_of_two_digits_is_one_year():
    years = range(dates.FIRST_DAY.year, dates.LAST_DAY.year + 1)
    assert len({year % 100 for year in years}) == len(years) == 100


@pytest.mark.parametrize(
    ("day", "dth", "ordinal", "year"),
    [
        (date(1930, 1, 1), "1st", "first", "nineteen thirty"),
        (date(1999, 1, 2), "2nd", "second", "nineteen ninety-nine"),
        (date(2000, 1, 3), "3rd", "third", "two thousand"),
        (date(2001, 1, 8), "8th", "eighth", "two thousand and one"),
        (date(2009, 1, 11), "11th", "eleventh", "two thousand and nine"),
        (date(2010, 1, 12), "12th", "twelfth", "twenty ten"),
        (date(2019, 1, 13), "13th", "thirteenth", "twenty nineteen"),
        (date(2020, 1, 20), "20th", "twentieth", "twenty twenty"),
        (date(2029, 1, 22), "22nd", "twenty-second", "twenty twenty-nine"),
        (date(1987, 1, 23), "23rd", "twenty-third", "nineteen eighty-seven"),
        (date(1940, 1, 30), "30th", "thirtieth", "nineteen forty"),
        (date(1955, 1, 31), "31st", "thirty-first", "nineteen fifty-five"),
    ],
)
def test_numbers_in_words(day, dth, ordinal, year):
    fields = dates.fields(day)
    assert (fields["dth"], fields["ordinal"], fields["year"]) == (dth, ordinal, year)


def test_every_date_fits_and_has_known_letters():
    days = [date(1977, 1, 1) + timedelta(days) for days in range(365)]
    days += [date(year, 9, 27) for year in range(1930, 2030)]
    texts = [form.format(**dates.fields(day)) for day in days for _, form in FORMS]
    assert max(map(len, texts)) == dates.LONGEST
    assert set("".join([*texts, *map(str.lower, texts), *map(str.upper, texts)])) <= set(dates.LETTERS)


def test_no_date_in_training_has_the_answer_of_a_held_out_one():
    known, unseen = dates.split(Random(0))
    assert {length: len(known[length]) + len(unseen[length]) for length in known} == {10: 36525, 7: 1200, 4: 100}
    for length in known:
        assert not set(known[length]) & set(unseen[length])
        assert len(unseen[length]) == (len(known[length]) + len(unseen[length])) // 10


def test_a_pair_is_a_date_and_its_answer():
    known, _ = dates.split(Random(0))
    pairs = [dates.random_pair(known, Random(seed)) for seed in range(200)]
    assert {len(pair.iso) for pair in pairs} == {4, 7, 10}
    for pair in pairs:
        assert pair.iso in known[len(pair.iso)]
        assert readings(pair.text) == {pair.iso}


def test_a_smudge_hides_one_character():
    known, _ = dates.split(Random(0))
    for seed in range(20):
        whole, smudged = (dates.random_pair(known, Random(seed), share) for share in (0.0, 1.0))
        assert smudged.iso == whole.iso
        assert len(smudged.text) == len(whole.text)
        assert sum(a != b for a, b in zip(smudged.text, whole.text, strict=True)) == smudged.text.count("?") == 1


def test_a_batch_is_dates_and_answers_of_different_lengths():
    known, _ = dates.split(Random(0))
    batch = next(dates.batches(known, Random(0)))
    assert batch.texts.shape == (dates.BATCH_SIZE, dates.LONGEST)
    assert batch.answers.shape == (dates.BATCH_SIZE, 11)
    assert set(batch.answer_lengths.tolist()) == {5, 8, 11}
    for text, length in zip(batch.texts, batch.text_lengths, strict=True):
        assert text[:length].all()
        assert not text[length:].any()
    for answer, length in zip(batch.answers, batch.answer_lengths, strict=True):
        assert len(dates.as_iso(answer)) == length - 1
        assert dates.as_iso(answer[: length - 1]) == dates.as_iso(answer)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps this small wait for a second thread, above all where tests run side by side
    try:
        return dates.main(["--steps", "6", "--out", str(tmp_path_factory.mktemp("dates") / "new" / "maps.png")])
    finally:
        torch.set_num_threads(threads)


def test_the_model_learns(report):
    assert len(report.losses) == 6
    assert report.losses[-1] < report.losses[0]


def test_it_is_tested_from_before_training_to_the_end(report):
    steps, shares = zip(*report.exact_matches, strict=True)
    assert steps == tuple(range(7))
    assert all(0 <= share <= 1 for share in shares)
    right = sum(pair.iso == answer for pair, answer in report.translations)
    assert shares[-1] == right / len(report.translations)


def test_every_held_out_date_is_translated(report):
    assert len(report.translations) == dates.HELD_OUT
    assert all(len(answer) <= dates.WRITE_AT_MOST for _, answer in report.translations)


def test_beam_search_gives_answers_by_probability(report):
    assert list(report.unclear) == dates.UNCLEAR
    for found in report.unclear.values():
        answers, probabilities = zip(*found, strict=True)
        assert len(set(answers)) == dates.BEAMS
        assert 1 >= probabilities[0] >= probabilities[1] >= 0


def test_the_picture_is_a_png(report):
    assert report.picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_map_has_a_row_for_each_character_written_and_a_column_for_each_read():
    model = dates.Translator()
    answer, weights = model.look("march 1987")
    assert weights.shape == (min(len(answer) + 1, dates.WRITE_AT_MOST), len("march 1987"))
    torch.testing.assert_close(weights.sum(1), torch.ones(len(weights)))
    assert not model.writer.alignment_history


def test_a_run_needs_a_step(capsys):
    with pytest.raises(SystemExit):
        dates.main(["--steps", "0"])
    assert "--steps must be at least 1, but is 0" in capsys.readouterr().err
