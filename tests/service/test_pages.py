"""The web page: files that come from here alone, are sent once, and let no other script run."""

from __future__ import annotations

import gzip
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources

import pytest
from fastapi.testclient import TestClient

from tastespace.report import page
from tastespace.service.app import create_app, prepare

TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
OURS = (page.STYLE, page.ICON, page.DOCS_SCRIPT, *page.SCRIPTS)
PATHS = ("/", "/docs", "/favicon.ico", *(f"/page/{name}" for name in OURS))


class Loaded(HTMLParser):
    """What a page loads and links to, and whether it has scripts of its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts, self.others, self.links, self.own, self._within = [], [], [], "", None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        self._within = tag
        if tag == "script":
            self.scripts.append(attributes["src"])
        elif "src" in attributes:
            self.others.append(attributes["src"])
        if "href" in attributes:
            (self.others if tag == "link" else self.links).append(attributes["href"])

    def handle_data(self, data):
        if self._within in ("script", "style"):
            self.own += data

    def handle_endtag(self, tag):
        self._within = None


@pytest.fixture
def client(read_only_client):
    return read_only_client


def uncompressed(client, path, **headers):
    """The file as it is sent without compression."""
    return client.get(path, headers={"Accept-Encoding": "identity", **headers})


@pytest.mark.parametrize("path", PATHS)
def test_each_file_of_the_page(client, path):
    name = {"/": page.INDEX, "/docs": page.DOCS, "/favicon.ico": page.ICON}.get(path, path.rpartition("/")[2])
    answer = uncompressed(client, path)
    assert answer.status_code == 200
    expected = "text/html" if path in ("/", "/docs") else TYPES[name.rpartition(".")[2]]
    assert answer.headers["Content-Type"].partition(";")[0] == expected
    if expected.startswith("text/"):
        assert answer.headers["Content-Type"].endswith("charset=utf-8")
    assert answer.content == page.read(name)
    assert "Content-Encoding" not in answer.headers


def sent(client, names) -> int:
    """The bytes of these files as they are sent."""
    total = 0
    for name in names:
        with client.stream("GET", f"/page/{name}", headers={"Accept-Encoding": "gzip"}) as answer:
            total += len(b"".join(answer.iter_raw()))
    return total


@pytest.mark.parametrize("view", page.VIEWS)
def test_scripts_and_styles_of_a_view_are_light(client, view):
    """Other views are loaded when they are opened."""
    assert sent(client, (page.STYLE, *page.SHELL, *page.VIEWS[view])) <= 45_000


@pytest.mark.parametrize("path", PATHS)
def test_what_a_browser_has_is_not_sent_again(client, path):
    first = client.get(path)
    tag = first.headers["ETag"]
    assert tag.startswith('W/"')  # It stands for the plain and for the compressed form.
    assert first.headers["Cache-Control"] == "no-cache"
    for known in (tag, f'"other", {tag}', tag.removeprefix("W/")):
        again = client.get(path, headers={"If-None-Match": known})
        assert again.status_code == 304
        assert again.content == b""
        assert again.headers["ETag"] == tag
    assert client.get(path, headers={"If-None-Match": '"of another release"'}).status_code == 200


def test_other_files_have_other_tags(client):
    tags = [client.get(f"/page/{name}").headers["ETag"] for name in OURS]
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize("path", ["/", "/page/canvas.js", "/page/style.css"])
def test_files_are_compressed_for_clients_that_accept_it(client, path):
    plain = uncompressed(client, path)
    with client.stream("GET", path, headers={"Accept-Encoding": "gzip, br"}) as answer:
        sent = b"".join(answer.iter_raw())
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(sent) == plain.content
    assert len(sent) < len(plain.content) * 0.7
    assert answer.headers["Content-Length"] == str(len(sent))
    assert plain.headers["Vary"] == answer.headers["Vary"] == "Accept-Encoding"


def policy_of(answer) -> dict[str, list[str]]:
    parts = (part.split() for part in answer.headers["Content-Security-Policy"].split(";"))
    return {name: sources for name, *sources in parts}


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/favicon.ico", "/page/nothing.js"])
def test_no_other_script_may_run(client, path):
    answer = client.get(path)
    policy = policy_of(answer)
    assert policy["default-src"] == ["'none'"]
    assert policy.get("script-src", ["'self'"]) == ["'self'"]
    assert policy.get("connect-src", ["'self'"]) == ["'self'"]
    assert policy["frame-ancestors"] == ["'none'"]
    assert not any("*" in source or "http" in source for sources in policy.values() for source in sources)
    assert "'unsafe-eval'" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_the_page_may_do_what_it_must(client):
    policy = policy_of(client.get("/"))
    assert policy["script-src"] == ["'self'"]
    assert policy["style-src"] == ["'self'"]  # Nothing is styled in the document.
    assert policy["base-uri"] == policy["form-action"] == ["'none'"]


def test_the_page_loads_all_parts_in_their_order(client):
    text = client.get("/").text
    loaded = Loaded(text)
    assert loaded.scripts == [f"page/{name}" for name in page.SHELL]
    assert text.count("<script defer ") == len(loaded.scripts)  # So they run in this order.
    assert set(loaded.others) == {f"page/{name}" for name in (page.ICON, page.STYLE)}
    assert all(link.startswith("#") for link in loaded.links)
    assert loaded.own == ""  # A script within the page would not be let run.
    for path in loaded.scripts + loaded.others:
        assert client.get(f"/{path}").status_code == 200


def test_every_script_there_is_loaded_or_of_the_report():
    there = {entry.name for entry in resources.files(page).iterdir() if entry.name.endswith((".js", ".css", ".svg"))}
    assert there == {*OURS, *page.REPORT}
    main = page.read("main.js").decode()
    for view, names in page.VIEWS.items():
        assert f"{view}: [" in main
        assert ", ".join(f'"{name}"' for name in names) in main


@pytest.mark.parametrize(
    "path",
    [
        "/page/nothing.js",
        "/page/",
        "/page",
        "/page/index.html",
        "/page/report.js",
        "/page/__init__.py",
        "/page/..%2f__init__.py",
        "/page/%2e%2e/__init__.py",
        "/page/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/page/....//....//etc/passwd",
        "/page/..\\..\\model_page.py",
        "/page/%2fetc%2fpasswd",
        "/page/api.js%00.svg",
        "/page/API.JS",
        "/nothing",
    ],
)
def test_nothing_else_is_there(client, path):
    answer = client.get(path, follow_redirects=True)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "there is nothing here"
    assert "root:" not in answer.text


def test_the_page_is_read_only(client):
    for method in ("POST", "PUT", "DELETE"):
        assert client.request(method, "/").status_code == 405
        assert client.request(method, "/page/api.js").status_code == 405


def test_the_page_needs_no_key_but_what_it_shows_does(settings, tmp_path):
    """Whoever opens it types the key there."""
    (tmp_path / "keys.toml").write_text(f'[[key]]\nname = "reader"\nscope = "read"\nsecret = "{"read-" * 5}"\n')
    told = replace(settings, keys=str(tmp_path / "keys.toml"), host="0.0.0.0")
    prepare(told)
    pictures = ("/v1/map", "/v1/users/3/place", "/v1/model/outline", "/v1/model/story")
    with TestClient(create_app(told)) as asking:
        for path in PATHS:
            assert asking.get(path).status_code == 200, path
        for path in pictures:
            assert asking.get(path).status_code == 401, path
        assert asking.post("/v1/place", json={"user": "3"}).status_code == 401
        for path in pictures:
            assert asking.get(path, headers={"X-API-Key": "read-" * 5}).status_code == 200, path


def test_the_page_is_no_part_of_the_described_interface(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert all(path.startswith("/v1/") for path in paths)
    assert {"/v1/map", "/v1/place", "/v1/users/{user}/place", "/v1/model/outline", "/v1/model/story"} <= paths.keys()


def test_who_refuses_gzip_gets_none(client):
    answer = client.get("/", headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert "Content-Encoding" not in answer.headers


def test_heads_of_the_page(client):
    assert client.head("/").status_code == 200
