"""The web page: files that do not change while the service runs, so that browsers may cache them."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache

from fastapi import APIRouter, HTTPException, Request, Response

from tastespace.report import page
from tastespace.service.door.access import context_of

router = APIRouter(include_in_schema=False)
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# Nothing from other sites, and no other scripts or styles.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
POLICY_WITH_IMAGES = POLICY.replace("img-src 'self'", "img-src 'self' http: https:")
METHODS = ["GET", "HEAD"]
FILES = {page.STYLE, page.ICON, page.DOCS_SCRIPT, *page.SCRIPTS}


@dataclass(frozen=True)
class Asset:
    """A file, plain and compressed."""

    content: bytes
    compressed: bytes
    tag: str
    type: str


@lru_cache(maxsize=32)
def _asset(name: str) -> Asset:
    content = page.read(name)
    kind = TYPES[name.rpartition(".")[2]]
    # Without a timestamp the bytes are the same in every worker. The tag is weak: both forms have the same one.
    return Asset(content, gzip.compress(content, 6, mtime=0), f'W/"{hashlib.sha256(content).hexdigest()[:16]}"', kind)


@router.api_route("/", methods=METHODS)
def index(request: Request) -> Response:
    """The page itself."""
    return _send(page.INDEX, request)


@router.api_route("/docs", methods=METHODS)
def docs(request: Request) -> Response:
    """The routes of the service, for people."""
    return _send(page.DOCS, request)


@router.api_route("/favicon.ico", methods=METHODS)
def icon(request: Request) -> Response:
    """The icon, which browsers request by themselves."""
    return _send(page.ICON, request)


@router.api_route("/page/{name}", methods=METHODS)
def part(name: str, request: Request) -> Response:
    """A file of the page."""
    if name not in FILES:
        raise HTTPException(404)
    return _send(name, request)


def _send(name: str, request: Request) -> Response:
    """Send a file, compressed if the browser accepts that, and nothing if it has the file already."""
    asset = _asset(name)
    headers = {
        "ETag": asset.tag,
        "Cache-Control": "no-cache",  # cached, but revalidated: another release has other files under the same names
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": POLICY if context_of(request).settings.images is None else POLICY_WITH_IMAGES,
    }
    if asset.tag.removeprefix("W/") in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if _takes_gzip(request.headers.get("accept-encoding", "")):
        return Response(asset.compressed, headers=headers | {"Content-Encoding": "gzip"}, media_type=asset.type)
    return Response(asset.content, headers=headers, media_type=asset.type)


def _takes_gzip(encodings: str) -> bool:
    """Whether gzip is among the accepted encodings, and not with weight 0."""
    for one in encodings.split(","):
        name, _, weight = one.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
