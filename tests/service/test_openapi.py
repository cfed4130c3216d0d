"""The OpenAPI document: requests that it allows and that it does not never cause an internal error."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from tastespace.service.app import create_app, prepare
from tastespace.service.settings import Settings

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


@pytest.fixture(scope="module")
def running(small_model, tmp_path_factory):
    told = Settings(model=str(small_model), state=str(tmp_path_factory.mktemp("openapi") / "state"), rate=0)
    prepare(told)
    app = create_app(told)
    with TestClient(app):
        yield app


@pytest.fixture(scope="module")
def schema(running):
    return schemathesis.openapi.from_asgi("/openapi.json", running)


def operations() -> list[tuple[str, str]]:
    """Every path and method of the document; no model is loaded for that."""
    document = create_app(Settings(model="nowhere", database="sqlite://")).openapi()
    return [(path, method) for path, methods in document["paths"].items() for method in methods]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "not allowed"])
@pytest.mark.parametrize(("path", "method"), operations())
def test_nothing_makes_the_service_fail(schema, path, method, mode):
    operation = schema[path][method]
    if mode is GenerationMode.NEGATIVE and not list(operation.iter_parameters()) and not operation.body:
        pytest.skip("nothing can be sent that is not allowed")

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def ask(case: schemathesis.Case) -> None:
        case.validate_response(case.call(), checks=list(CHECKS))

    ask()


def test_everything_is_described_with_examples(running):
    document = running.openapi()
    paths = {path for path in document["paths"]}
    assert all(path.startswith("/v1/") for path in paths)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation.get("description"), path
            assert "application/problem+json" in operation["responses"]["422"]["content"]
    text = json.dumps(document)
    assert '"examples"' in text
    assert '"securitySchemes"' in text


def test_the_document_is_there_without_a_key(settings):
    """Authors of clients need it, and it contains no data."""
    prepare(settings)
    with TestClient(create_app(replace(settings))) as asking:
        assert asking.get("/openapi.json").json()["info"]["title"] == "tastespace"
        assert "page/docs.js" in asking.get("/docs").text
