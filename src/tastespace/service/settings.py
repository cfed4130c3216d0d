"""Settings and API keys of a service, checked when it starts."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tastespace.errors import InvalidParameterError
from tastespace.parameters import check_int, check_number

SETTINGS_VARIABLE = "TASTESPACE_SERVICE"  # how the settings reach the workers
KEYS_VARIABLE = "TASTESPACE_API_KEYS"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the model and the ratings are, who has access, and limits."""

    model: str  # the artifact
    state: str | None = None  # folder of versions and of the embedded database; None for one beside the model
    database: str | None = None  # URL; None for SQLite in the state folder
    keys: str | None = None  # file of API keys; None for those of the environment variable, if any
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    origins: tuple[str, ...] = ()  # web pages of these may send requests (CORS)
    hosts: tuple[str, ...] = ()  # names that the header Host may have; any by default, on a loopback address its own
    proxies: tuple[str, ...] = ()  # addresses of reverse proxies, whose X-Forwarded-For is believed
    new_items: bool = False  # whether to store ratings of items that the model does not know
    max_items: int = 1000  # in one response
    max_ratings: int = 10_000  # in one request
    body_bytes: int = 4 << 20
    seconds: float = 30.0  # request timeout
    head_seconds: float = 10.0  # for the head of a request
    connections: int = 1000  # open ones, per worker
    connections_of_address: int = 200  # of them
    rate: float = 200.0  # requests per second of one client, per worker; 0 for no limit
    cached_users: int = 256  # users whose beliefs are cached, per worker
    poll_seconds: float = 0.5  # between checks for another model
    kept_versions: int = 5
    items_are: str | None = None  # what the page calls items, in the plural; None to guess from the data set
    images: str | None = None  # the attribute with addresses of images, which browsers then load from other sites
    watch_days: float = 30.0  # how long is kept what was shown and how ratings turned out; 0 to keep nothing

    def check(self) -> None:
        """Refuse invalid values."""
        check_int("port", self.port, least=0)
        for name in ("workers", "max_items", "max_ratings", "body_bytes", "cached_users", "kept_versions"):
            check_int(name, getattr(self, name), least=1)
        for name in ("connections", "connections_of_address"):
            check_int(name, getattr(self, name), least=1)
        for name in ("seconds", "head_seconds", "poll_seconds"):
            check_number(name, getattr(self, name), above=0)
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy, strict=False)
            except ValueError:
                raise InvalidParameterError(
                    f"the proxy is {proxy!r}; expected an address or a network, such as 127.0.0.1 or 10.0.0.0/8"
                ) from None
        if self.items_are is not None and not 1 <= len(self.items_are.strip()) <= 40:
            raise InvalidParameterError(f"items are {self.items_are!r}; expected a word in the plural, such as films")
        check_number("rate", self.rate, least=0)
        check_number("watch_days", self.watch_days, least=0)
        if self.database is None and not _is_unicode(str(self.folder)):
            raise InvalidParameterError(
                f"the state folder {self.folder} is not Unicode; expected another one, with --state, or a --db"
            )
        if self.port > 65535:
            raise InvalidParameterError(f"port is {self.port}; expected one up to 65535")

    @property
    def folder(self) -> Path:
        """The folder of versions and of the embedded database."""
        model = Path(self.model).resolve()
        return model.parent / f"{model.name}-state" if self.state is None else Path(self.state).resolve()

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{quote(str(self.folder / 'ratings.db'), errors='surrogateescape')}"

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown_host(self) -> str:
        """The host as it is written in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        content: dict[str, Any] = json.loads(text)
        lists = {name: tuple(value) for name, value in content.items() if isinstance(value, list)}
        return cls(**{**content, **lists})


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


SCOPES = ("read", "write", "admin")  # each includes those before it
MIN_SECRET_LENGTH = 16


@dataclass(frozen=True)
class Key:
    """The key of one client."""

    name: str
    scope: str
    digest: bytes
    expires: datetime | None = None

    def allows(self, scope: str) -> bool:
        return SCOPES.index(scope) <= SCOPES.index(self.scope)

    def has_expired(self, now: datetime) -> bool:
        return self.expires is not None and now >= self.expires


class Keys(tuple[Key, ...]):
    """All keys; none at all means that every client may do anything."""

    def find(self, secret: str) -> Key | None:
        """The key with this secret. All are compared, so that the time taken reveals nothing."""
        digest, found = digest_of(secret), None
        for key in self:
            if hmac.compare_digest(digest, key.digest):
                found = key
        return found


def digest_of(secret: str) -> bytes:
    """The digest that is kept of a secret; secrets are long and random, so that a plain digest is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def read_keys(file: str | None, environment: Mapping[str, str] = os.environ) -> Keys:
    """The keys of the file, or else of the environment variable; none if there is neither."""
    if file is not None:
        keys = _read_file(Path(file))
    else:
        keys = Keys(_read_entry(entry) for entry in environment.get(KEYS_VARIABLE, "").split())
    names = [key.name for key in keys]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InvalidParameterError(f"there are two keys {min(twice)!r}; expected a name once")
    if len({key.digest for key in keys}) < len(keys):
        raise InvalidParameterError("two keys have the same secret; expected one each")
    return keys


def doubts(settings: Settings) -> list[str]:
    """What should be said of the settings when the service starts: secrets that others on the machine can read."""
    if settings.keys is None or os.name != "posix":
        return []
    mode = Path(settings.keys).stat().st_mode & 0o777
    if not mode & 0o077:
        return []
    return [
        f"the file of keys {settings.keys} can be read by other users of this machine (mode {mode:o}); "
        f"expected 600: chmod 600 {settings.keys}"
    ]


def _read_file(path: Path) -> Keys:
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        # The message of the parser could repeat a line of the file.
        reason = error.strerror if isinstance(error, OSError) else "it is not TOML"
        raise InvalidParameterError(f"the file of keys {path} cannot be read: {reason}") from None
    entries = content.get("key", [])
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidParameterError(
            f"the file of keys {path} names no key; expected [[key]] tables with name, scope and sha256"
        )
    return Keys(_read_key(entry, path) for entry in entries)


def _read_key(entry: dict[str, Any], file: Path | str) -> Key:
    name, scope = str(entry.get("name", "")).strip(), str(entry.get("scope", ""))
    if not name:
        raise InvalidParameterError(f"a key in {file} has no name; expected name, scope and sha256")
    if scope not in SCOPES:
        raise InvalidParameterError(f"the key {name!r} has the scope {scope!r}; expected one of {', '.join(SCOPES)}")
    if "sha256" in entry:
        try:
            digest = bytes.fromhex(str(entry["sha256"]))
        except ValueError:
            digest = b""
        if len(digest) != 32:
            raise InvalidParameterError(f"the key {name!r} in {file} has a bad sha256; expected 64 hexadecimal digits")
    else:
        secret = str(entry.get("secret", ""))
        if len(secret) < MIN_SECRET_LENGTH:
            raise InvalidParameterError(
                f"the secret of the key {name!r} has {len(secret)} characters; expected at least {MIN_SECRET_LENGTH}: "
                "python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
            )
        digest = digest_of(secret)
    return Key(name, scope, digest, _read_expiry(name, entry.get("expires")))


def _read_entry(entry: str) -> Key:
    """A key from NAME:SCOPE:SECRET."""
    name, _, rest = entry.partition(":")
    scope, _, secret = rest.partition(":")
    if not name or not secret:
        raise InvalidParameterError(f"{KEYS_VARIABLE} has a bad entry; expected NAME:SCOPE:SECRET, with spaces between")
    return _read_key({"name": name, "scope": scope, "secret": secret}, KEYS_VARIABLE)


def _read_expiry(name: str, value: Any) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise InvalidParameterError(f"the key {name!r} expires {value!r}; expected a date, such as 2027-01-31")
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
