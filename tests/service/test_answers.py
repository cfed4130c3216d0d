"""What the service answers: the same as the library, from the ratings of the database."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from service.conftest import small_ratings

from tastespace import Joint, artifact
from tastespace.service.app import create_app, prepare
from tastespace.service.settings import Settings


def test_a_list_is_that_of_the_library(client, small_model):
    told = client.get("/v1/users/3/recommendations", params={"n": 4}).json()
    ranking = artifact.load(small_model).recommend(["3"], 4)
    assert [entry["item"] for entry in told["items"]] == [str(item) for item in ranking.item_ids]
    assert [entry["score"] for entry in told["items"]] == pytest.approx(ranking.scores[0].tolist(), abs=1e-3)
    assert told["items"][0]["title"].startswith("Film ")
    low, high = told["items"][0]["interval"]
    assert low <= told["items"][0]["score"] + 1e-6
    assert high <= 5
    assert not told["cold"]


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
def test_a_list_of_joint_says_how_likely_items_are_chosen_and_liked(tmp_path):
    model = Joint(n_factors=2, chains=1, warmup=20, draws=60, seed=1, threads=1).fit(small_ratings())
    artifact.save(model, tmp_path / "model")
    settings = Settings(model=str(tmp_path / "model"), state=str(tmp_path / "state"), rate=0)
    prepare(settings)
    with TestClient(create_app(settings)) as client:
        for user in ("3", "new"):
            ranking = model.recommend([user], 4, top_n=True)
            expected, sure = ranking.entries_of(0), ranking.uncertainty
            told = client.get(f"/v1/users/{user}/recommendations", params={"n": 4}).json()
            assert [entry["item"] for entry in told["items"]] == [str(entry["item"]) for entry in expected]
            assert told["liked_from"] == pytest.approx(sure.liked_from[0], abs=1e-4)
            assert told["base_rate"] == pytest.approx(sure.base_rate, abs=1e-4)
            for entry, own in zip(told["items"], expected, strict=True):
                for name in ("score", "chosen_probability", "liked_probability", "expected_rating"):
                    assert entry[name] == pytest.approx(own[name], abs=1e-3)
                assert entry.get("top_n_probability") is None  # on request only
            told = client.get(f"/v1/users/{user}/recommendations", params={"n": 4, "top_n": True}).json()
            shares = [entry["top_n_probability"] for entry in told["items"]]
            assert shares == pytest.approx([entry["top_n_probability"] for entry in expected], abs=0.2)


def test_a_new_rating_counts_at_once(client):
    assert client.get("/v1/users/new/recommendations").json()["cold"]
    best = client.get("/v1/users/new/recommendations").json()["items"][0]["item"]
    assert client.put(f"/v1/users/new/ratings/{best}", json={"rating": 1}).json() == {"stored": 1}
    told = client.get("/v1/users/new/recommendations", params={"n": 30}).json()
    assert not told["cold"]
    assert best not in [entry["item"] for entry in told["items"]]  # seen
    (stored,) = client.get("/v1/users/new/ratings").json()["ratings"]
    assert (stored["item"], stored["rating"]) == (best, 1)


def test_the_history_of_a_new_user_counts_and_is_not_stored(client):
    told = client.post("/v1/recommendations", json={"history": {"1": 5, "2": 4}, "n": 3, "explain": True}).json()
    assert not told["cold"]
    assert {reason["item"] for reason in told["items"][0]["because"]} <= {"1", "2"}
    assert client.get("/v1/model").json()["people"] == 40


def test_filters_and_policies_change_the_list(client):
    plain = client.get("/v1/users/3/recommendations", params={"n": 30}).json()
    comedies = client.get("/v1/users/3/recommendations", params={"n": 30, "where": "genre = Comedy"}).json()
    assert {int(entry["item"]) % 3 for entry in comedies["items"]} == {1}
    first = plain["items"][0]["item"]
    without = client.get("/v1/users/3/recommendations", params={"exclude": [first]}).json()
    assert first not in [entry["item"] for entry in without["items"]]
    only = client.get("/v1/users/3/recommendations", params={"only": [first]}).json()
    assert [entry["item"] for entry in only["items"]] == [first]
    assert client.get("/v1/users/3/recommendations", params={"policy": "cautious:c=2"}).json()["policy"] == "cautious"


def test_predictions_questions_and_similar_items(client, small_model):
    told = client.post("/v1/predictions", json={"user": "3", "items": ["1", 2, "nothing"], "coverage": 0.5}).json()
    prediction = artifact.load(small_model).predict(["3"] * 3, ["1", "2", "nothing"])
    assert [entry["mean"] for entry in told["items"]] == pytest.approx(prediction.mean.tolist(), abs=1e-3)
    assert [entry["cold"] for entry in told["items"]] == [False, False, True]
    questions = client.get("/v1/users/new/questions", params={"n": 3}).json()
    assert len(questions["items"]) == 3
    assert questions["items"][-1]["sd"] < questions["sd"]
    similar = client.get("/v1/items/1/similar", params={"n": 2}).json()
    assert len(similar["items"]) == 2


def test_items_by_title(client):
    found = client.get("/v1/items", params={"search": "film 12 "}).json()
    assert [item["item"] for item in found["items"]] == ["12"]
    assert found["items"][0]["attributes"] == {"genre": "Drama"}
    assert client.get("/v1/items/12").json()["title"] == "Film 12 (1992)"
    assert client.get("/v1/items", params={"limit": 5}).json()["total"] == 30


def test_a_rating_can_be_taken_back(client):
    before = client.get("/v1/users/3/recommendations", params={"n": 30}).json()["items"]
    item = before[0]["item"]
    client.put(f"/v1/users/3/ratings/{item}", json={"rating": 1})
    assert client.delete(f"/v1/users/3/ratings/{item}").status_code == 200
    assert client.get("/v1/users/3/recommendations", params={"n": 30}).json()["items"] == before
    assert client.delete(f"/v1/users/3/ratings/{item}").status_code == 404


def test_a_deleted_user_is_new_again(client):
    assert client.get("/v1/users/3").json()["in_training"]
    assert client.delete("/v1/users/3").json()["forgotten"] > 0
    assert client.get("/v1/users/3").json() == {"user": "3", "ratings": 0, "version": 2, "in_training": False}
    forgotten = client.get("/v1/users/3/recommendations").json()
    nobody = client.get("/v1/users/nobody/recommendations").json()
    assert forgotten["cold"]
    assert [entry["item"] for entry in forgotten["items"]] == [entry["item"] for entry in nobody["items"]]


def test_the_same_request_is_carried_out_once(client):
    key = {"Idempotency-Key": "once"}
    first = client.put("/v1/users/new/ratings/1", json={"rating": 5}, headers=key)
    client.put("/v1/users/new/ratings/1", json={"rating": 2})
    again = client.put("/v1/users/new/ratings/1", json={"rating": 5}, headers=key)
    assert again.json() == first.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert client.get("/v1/users/new/ratings").json()["ratings"][0]["rating"] == 2
    assert client.put("/v1/users/new/ratings/1", json={"rating": 4}, headers=key).status_code == 409


def test_a_time_is_that_of_its_zone(client):
    """SQLite keeps none."""
    rated = {"user": "a", "item": "1", "rating": 5, "at": "2024-05-31T12:00:00+05:00"}
    assert client.post("/v1/ratings", json={"ratings": [rated, {**rated, "item": "2", "at": "2024-05-31T12:00:00"}]})
    told = {row["item"]: row["at"] for row in client.get("/v1/users/a/ratings").json()["ratings"]}
    assert told == {"1": "2024-05-31T07:00:00+00:00", "2": "2024-05-31T12:00:00+00:00"}


def test_a_query_says_what_is_wrong_and_where(client):
    two = client.get("/v1/users/3/recommendations", params={"n": 5}).json()["items"][:2]
    excluded = [entry["item"] for entry in two]
    left = client.get("/v1/users/3/recommendations", params={"exclude": excluded, "n": 30}).json()["items"]
    assert not set(excluded) & {entry["item"] for entry in left}
    wrong = client.get("/v1/users/3/recommendations", params={"n": "many", "diversity": 2})
    assert wrong.status_code == 422
    assert [one["where"] for one in wrong.json()["errors"]] == ["query.n", "query.diversity"]
    wrong = client.get("/v1/users/%20/recommendations")
    assert [one["where"] for one in wrong.json()["errors"]] == ["path.user"]
    plain = client.get("/v1/users/3/recommendations", params={"uncertainty": "false"}).json()["items"][0]
    assert "interval" not in plain


def test_the_document_of_lists_is_whole(client):
    document = client.get("/openapi.json").json()
    told = document["paths"]["/v1/users/{user}/recommendations"]["get"]
    names = {place["name"]: place["in"] for place in told["parameters"]}
    assert names.pop("user") == "path"
    assert set(names.values()) == {"query"}
    assert {"n", "policy", "where", "exclude", "only", "explain", "uncertainty"} <= set(names)
    schemes = set(document["components"]["securitySchemes"])
    assert {name for one in told["security"] for name in one} == schemes


def test_a_body_must_be_said_to_be_json(client):
    answer = client.put("/v1/users/3/ratings/1", content=b'{"rating": 5}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert "Content-Type: application/json" in answer.json()["detail"]


def test_a_mistake_in_a_condition_is_shown_below_it(client):
    detail = client.get("/v1/users/3/recommendations", params={"where": "genre is Comedy"}).json()["detail"]
    assert "\n  genre is Comedy\n" in detail


def test_many_ratings_are_stored_all_or_none(client):
    good = {"user": "a", "item": "1", "rating": 5}
    bad = client.post("/v1/ratings", json={"ratings": [good, {"user": "a", "item": "nothing", "rating": 5}]})
    assert bad.status_code == 404
    assert client.get("/v1/users/a/ratings").json()["total"] == 0
    assert client.post("/v1/ratings", json={"ratings": [good, {**good, "rating": 3}]}).json() == {"stored": 2}
    assert client.get("/v1/users/a/ratings").json()["ratings"][0]["rating"] == 3


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("GET", "/v1/users/3/recommendations?n=0", None, 422),
        ("GET", "/v1/users/3/recommendations?n=1000000000", None, 422),
        ("GET", "/v1/users/3/recommendations?policy=clever", None, 422),
        ("GET", "/v1/users/3/recommendations?where=genre%20%3D", None, 422),
        ("GET", "/v1/users/a%00b/recommendations", None, 422),
        ("GET", "/v1/items/nothing", None, 404),
        ("GET", "/v1/items/nothing/similar", None, 404),
        ("GET", "/v1/users/nobody", None, 404),
        ("GET", "/v1/nothing", None, 404),
        ("PUT", "/v1/users/3/ratings/1", b'{"rating": 9}', 422),
        ("PUT", "/v1/users/3/ratings/1", b'{"rating": "5"}', 422),
        ("PUT", "/v1/users/3/ratings/1", b'{"rating": NaN}', 422),
        ("PUT", "/v1/users/3/ratings/1", b'{"rating": 5, "more": 1}', 422),
        ("PUT", "/v1/users/3/ratings/1", b'{"rating"', 400),
        ("POST", "/v1/ratings", b'{"ratings": []}', 422),
        ("POST", "/v1/recommendations", b'{"user": "3", "history": {"1": 5}}', 422),
        ("PUT", "/v1/users/3/ratings/1", b'{"rating": 1e400}', 422),
        ("PUT", "/v1/users/3/ratings/1", b'{"rating": ' + b"9" * 5000 + b"}", 400),
        ("PUT", "/v1/users/3/ratings/1'%3B%20DROP%20TABLE%20ratings%3B--", b'{"rating": 5}', 404),
        ("PUT", "/v1/users/3/ratings/..%5C..%5Cetc%5Cpasswd", b'{"rating": 5}', 404),
        ("PUT", "/v1/users/a%1bb/ratings/1", b'{"rating": 5}', 422),
        ("GET", "/v1/items/..%2F..%2Fetc%2Fpasswd", None, 404),
        ("GET", "/v1/items/%7B%7B7*7%7D%7D", None, 404),
        ("GET", "/v1/users/3/recommendations?policy=%7B%7B7*7%7D%7D", None, 422),
        ("GET", "/v1/users/3/recommendations?where=1%20or%201%3D1", None, 422),
        ("GET", "/v1/users/3/recommendations?where=" + "(" * 400 + "genre%20%3D%20Drama" + ")" * 400, None, 422),
        ("GET", "/v1/users/3/recommendations?exclude=1&only=nothing", None, 404),
        ("GET", "/v1/users/3/questions?n=1000", None, 422),
        ("POST", "/v1/health", b"{}", 405),
        ("POST", "/v1/recommendations", b"[" * 100_000, 400),
        ("POST", "/v1/recommendations", b'{"user": "\\ud800"}', 422),
        ("POST", "/v1/recommendations", b'{"where": "\\ud800"}', 422),
        ("POST", "/v1/recommendations", b'{"history": {"1": 99}}', 422),
        ("POST", "/v1/recommendations", b'{"history": {"1": 1e308}}', 422),
        ("POST", "/v1/predictions", b'{"history": {"1": -1}, "items": ["2"]}', 422),
        ("POST", "/v1/ratings", b'{"ratings": [{"user": "3", "item": "1", "rating": 5, "at": "9999-12-31"}]}', 422),
        ("POST", "/v1/ratings", b'{"ratings": [{"user": "3", "item": "1", "rating": 5, "at": 1e300}]}', 422),
        ("POST", "/v1/recommendations", b" " * (5 << 20), 413),
    ],
)
def test_what_is_refused_is_refused_clearly(read_only_client, method, path, content, status):
    before = read_only_client.get("/v1/model").json()["ratings_stored"]
    headers = {"Content-Type": "application/json"} if content else {}
    answer = read_only_client.request(method, path, content=content, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert answer.json()["detail"]
    assert read_only_client.get("/v1/model").json()["ratings_stored"] == before


def test_rules_change_the_list_and_say_so(client):
    asked = {"user": "3", "n": 4, "rules": ["at-most:k=1,of=genre"]}
    told = client.post("/v1/recommendations", json=asked).json()
    kinds = [int(entry["item"]) % 3 for entry in told["items"]]
    assert len(kinds) == len(set(kinds))
    assert told["remarks"][0].startswith("at-most:k=1,of=genre: left ")
    plain = client.get("/v1/users/3/recommendations", params={"n": 4}).json()
    first, second = (entry["item"] for entry in plain["items"][:2])
    shown = [{"item": first}, {"item": second, "at": "2001-01-01T00:00:00Z"}]
    told = client.post("/v1/recommendations", json={"user": "3", "rules": ["not-shown"], "shown": shown}).json()
    assert told["items"][0]["item"] == second
    rules = {"n": 4, "rules": [f"pin:item={second},place=1", "min-ratings:n=1"]}
    told = client.get("/v1/users/3/recommendations", params=rules).json()
    assert [entry["item"] for entry in told["items"][:2]] == [second, first]
    wrong = client.post("/v1/recommendations", json={"user": "3", "rules": ["at-most:k=1,of=colour"]})
    assert wrong.status_code == 422
    assert "colour" in wrong.json()["detail"]
