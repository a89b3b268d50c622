"""The code in the documents runs, from top to bottom of each, as a reader would type it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import unspool

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


# What torch says of its own compiler and exporter.
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning", "ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_code_of_a_document_runs(document: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(document), "exec"), names)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")  # torch's word on nn.LSTM
def test_the_recipe_for_the_weights_of_torchs_lstm_holds_with_a_projection() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "torch.md").read_text(), re.DOTALL)
    exec(next(block for block in blocks if "def copy_lstm" in block), names)
    lstm = nn.LSTM(5, 4, num_layers=2, proj_size=3, batch_first=True)
    cells = [unspool.LSTMCell(4, num_proj=3, forget_bias=0.5, input_size=size) for size in (5, 3)]
    for layer, cell in enumerate(cells):
        names["copy_lstm"](lstm, cell, layer)
    inputs = torch.randn(2, 6, 5)
    outputs, _ = unspool.dynamic_rnn(unspool.MultiRNNCell(cells), inputs, dtype=torch.float32)
    torch.testing.assert_close(outputs, lstm(inputs)[0])


@pytest.mark.compiled
def test_the_page_shows_what_explain_says() -> None:
    pinned = re.search(r"^torch==(\d+\.\d+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    if pinned is None or not torch.__version__.startswith(f"{pinned[1]}."):
        pytest.skip("another torch may take a step apart differently")
    script: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "images" / "explain.py"))
    page = (ROOT / "docs" / "explain.md").read_text()
    explanation = script["explained"](page)
    hint = "run python docs/images/explain.py"
    assert script["refreshed"](page, str(explanation)) == page, hint
    assert (ROOT / "docs" / "images" / "explain.svg").read_text() == explanation.svg() + "\n", hint


def test_the_page_lists_the_names_of_tf1() -> None:
    script: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "tf1_names.py"))
    page = (ROOT / "docs" / "tf1.md").read_text()
    assert script["refreshed"](page) == page, "run python docs/tf1_names.py"


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 180


def test_the_table_of_policies_holds() -> None:
    document = (ROOT / "docs" / "engine.md").read_text()
    cell, inputs = unspool.LSTMCell(256), torch.zeros(32, 1000, 64)
    for policy in (unspool.Keep(), unspool.Recompute(), unspool.Checkpoint(every=50)):
        use = unspool.explain(cell, inputs, dtype=torch.float32, memory=policy).memory
        assert use is not None
        more = f"{use.chosen.again / 2**20:g} MiB" if use.chosen.again else ""
        kept = f"{use.chosen.bytes / 2**20:g} MiB"
        assert re.search(rf"\| `{re.escape(repr(policy))}` \| .* \| {kept} \| {more} ?\|", document)


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_every_public_name_is_exported_once_and_documented() -> None:
    assert len(set(unspool.__all__)) == len(unspool.__all__)
    for name in unspool.__all__:
        documentation = getattr(unspool, name).__doc__
        assert documentation, name
        assert ">>>" in documentation or name == "RNNCellWrapper", name
