"""API keys: who they let do what, until when, and what of them is never told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from fastapi.testclient import TestClient

from tastespace.errors import InvalidParameterError
from tastespace.service.app import check_access, create_app, prepare
from tastespace.service.settings import Settings, read_keys

READ, WRITE, ADMIN, OLD = ("read-" * 5, "write-" * 5, "admin-" * 5, "old-" * 6)


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text(
        f"""
        [[key]]
        name = "reader"
        scope = "read"
        secret = "{READ}"
        [[key]]
        name = "writer"
        scope = "write"
        sha256 = "{sha256(WRITE.encode()).hexdigest()}"
        [[key]]
        name = "boss"
        scope = "admin"
        secret = "{ADMIN}"
        [[key]]
        name = "former"
        scope = "admin"
        secret = "{OLD}"
        expires = 2020-01-01
        """
    )
    return path


@pytest.fixture
def guarded(settings, key_file):
    told = replace(settings, keys=str(key_file), host="0.0.0.0")
    prepare(told)
    with TestClient(create_app(told)) as asking:
        yield asking


@pytest.mark.parametrize(
    ("secret", "list_status", "rate_status", "reload_status"),
    [
        (None, 401, 401, 401),
        ("wrong-" * 5, 401, 401, 401),
        (OLD, 401, 401, 401),
        (READ, 200, 403, 403),
        (WRITE, 200, 200, 403),
        (ADMIN, 200, 200, 200),
    ],
)
def test_each_scope_may_what_it_may(guarded, caplog, secret, list_status, rate_status, reload_status):
    with caplog.at_level("DEBUG"):
        for header in ({"Authorization": f"Bearer {secret}"}, {"X-API-Key": secret or ""}) if secret else ({},):
            assert guarded.get("/v1/users/3/recommendations", headers=header).status_code == list_status
            rated = guarded.put("/v1/users/3/ratings/1", json={"rating": 3}, headers=header)
            assert rated.status_code == rate_status
            assert guarded.post("/v1/model/reload", headers=header).status_code == reload_status
    assert secret is None or secret not in caplog.text


def test_keys_cannot_be_guessed_fast(settings, key_file):
    told = replace(settings, keys=str(key_file), host="0.0.0.0", rate=2)
    prepare(told)
    with TestClient(create_app(told)) as asking:
        wrong = [asking.get("/v1/model", headers={"X-API-Key": f"guess-{n}" * 4}).status_code for n in range(8)]
        assert wrong[:4] == [401] * 4
        assert 429 in wrong[4:]
        assert asking.get("/v1/model", headers={"X-API-Key": READ}).status_code == 200  # Whoever has one may go on.


def test_health_needs_no_key(guarded):
    assert guarded.get("/v1/health").status_code == 200
    assert guarded.get("/v1/ready").status_code == 200


def test_a_key_is_asked_for_politely(guarded):
    answer = guarded.get("/v1/model")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "Authorization: Bearer" in answer.json()["detail"]


def test_keys_of_the_environment():
    keys = read_keys(None, {"TASTESPACE_API_KEYS": f"shop:read:{READ} ops:admin:{ADMIN}"})
    found = keys.find(ADMIN)
    assert found is not None
    assert found.name == "ops"
    assert found.allows("write")
    assert keys.find("nothing") is None
    assert not read_keys(None, {})


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "names no key"),
        ("[[key]]\nscope = 'read'", "has no name"),
        ("[[key]]\nname = 'a'\nscope = 'all'\nsecret = 'xxxxxxxxxxxxxxxxxxxx'", "expected one of read, write, admin"),
        ("[[key]]\nname = 'a'\nscope = 'read'\nsecret = 'short'", "at least 16"),
        ("[[key]]\nname = 'a'\nscope = 'read'\nsha256 = 'zz'", "64 hexadecimal"),
        ("[[key]]\nname = 'a'\nscope = 'read'\nsecret = 'xxxxxxxxxxxxxxxxxxxx'\nexpires = 3", "expected a date"),
        ("key = 'xxxxxxxxxxxxxxxxxxxx", "not TOML"),
    ],
)
def test_bad_files_of_keys(tmp_path, content, complaint):
    (tmp_path / "keys.toml").write_text(content)
    with pytest.raises(InvalidParameterError, match=complaint) as told:
        read_keys(str(tmp_path / "keys.toml"))
    assert "xxxxxxxxxxxxxxxxxxxx" not in str(told.value)


def test_two_keys_must_differ():
    with pytest.raises(InvalidParameterError, match="two keys 'a'"):
        read_keys(None, {"TASTESPACE_API_KEYS": f"a:read:{READ} a:read:{ADMIN}"})
    with pytest.raises(InvalidParameterError, match="same secret"):
        read_keys(None, {"TASTESPACE_API_KEYS": f"a:read:{READ} b:read:{READ}"})
    with pytest.raises(InvalidParameterError, match="NAME:SCOPE:SECRET"):
        read_keys(None, {"TASTESPACE_API_KEYS": "nonsense"})


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("example.org", False)],
)
def test_other_machines_need_keys(host, is_local, monkeypatch):
    monkeypatch.delenv("TASTESPACE_API_KEYS", raising=False)
    settings = Settings(model="model", host=host)
    assert settings.is_local is is_local
    if is_local:
        check_access(settings)
    else:
        with pytest.raises(InvalidParameterError, match="there are no API keys"):
            check_access(settings)


def test_a_key_expires_at_its_moment():
    key = read_keys(None, {"TASTESPACE_API_KEYS": f"a:read:{READ}"})[0]
    key = replace(key, expires=datetime(2027, 1, 31, tzinfo=UTC))
    assert not key.has_expired(datetime(2027, 1, 30, 23, tzinfo=UTC))
    assert key.has_expired(datetime(2027, 1, 31, tzinfo=UTC))
