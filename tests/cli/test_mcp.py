"""`tastespace mcp` as an assistant uses it: by the client of the official SDK."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.util import find_spec

import polars as pl
import pytest
from cli.program import COMMAND

from tastespace import ALS, DampedBias, InvalidParameterError, load, save
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="needs the extra mcp")
NAMES = {"recommend", "predict", "explain", "ask", "similar", "rate"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mcp")
    ratings = tastes(40, 30, density=0.5, rng=generator(3))[0]
    titles = pl.Series("title", [f"Film {row}" for row in range(30)])
    genres = pl.DataFrame({"genres": [["even"] if row % 2 == 0 else ["odd"] for row in range(30)]})
    save(ALS(n_factors=3, regularization=0.1, seed=0).fit(ratings.with_items(titles, genres)), folder / "als")
    return folder


def test_over_standard_input_and_output(folder):
    """The program itself, as an assistant starts it."""
    from mcp import Client, StdioServerParameters

    arguments = [*COMMAND[1:], "mcp", str(folder / "als"), "--ratings", str(folder / "told.csv")]

    async def talk():
        async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools.keys() == NAMES
            assert all(tool.description for tool in tools.values())
            rated = await client.call_tool("rate", {"item": "film 3", "rating": 4.0})
            listed = await client.call_tool("recommend", {"n": 4, "where": "genres = odd"})
            wrong = await client.call_tool("similar", {"item": "no such film"})
            return rated, listed, wrong

    rated, listed, wrong = asyncio.run(talk())
    told = json.loads(rated.content[0].text)
    assert (told["title"], told["ratings"], told["user"]) == ("Film 3", 1, "you")
    items = json.loads(listed.content[0].text)["lists"][0]["items"]
    model = load(folder / "als")
    expected = model.recommend(history={told["item"]: 4.0}, n=4, where="genres = odd")
    assert [entry["item"] for entry in items] == expected.item_ids.to_list()
    assert wrong.is_error
    assert "the model knows no item 'no such film'" in wrong.content[0].text
    assert (folder / "told.csv").read_text().splitlines() == ["user,item,rating", f"you,{told['item']},4.0"]


def test_every_tool_answers_as_the_model_does(folder):
    from tastespace.cli.verbs.mcp import Tools

    model, file = load(folder / "als"), folder / "more.csv"
    tools = Tools(model, file)
    item = model.ratings_.items.ids[5]
    low, high = model.rating_range_
    told = tools.rate("Film 5", high, user="2")
    assert told["item"] == item
    history = {item: high}
    assert tools.predict(["Film 6"], user="2") == model.predict(["2"], ["Film 6"], history=history).to_dict()
    assert tools.explain("Film 6", user="2") == model.explain("2", ["Film 6"], history=history).to_dict()
    assert tools.similar("Film 6", n=3) == model.similar_items(["Film 6"], 3).to_dict()
    more = tools.recommend(user="2", n=3, ratings={"Film 7": low})
    assert more == model.recommend(["2"], 3, history={**history, model.ratings_.items.ids[7]: low}).to_dict()
    # Another session knows what the first one was told.
    assert Tools(model, file).recommend(user="2") == tools.recommend(user="2")
    with pytest.raises(InvalidParameterError, match="rating is 99; expected one from"):
        tools.rate("Film 5", 99)
    with pytest.raises(InvalidParameterError, match="provides no uncertainty, so it cannot choose questions"):
        Tools(DampedBias().fit(model.ratings_), None).ask()
