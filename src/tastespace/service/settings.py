"""All that a service can be told, checked when it starts."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tastespace.errors import InvalidParameterError
from tastespace.models.parameters import number, whole_number

VARIABLE = "TASTESPACE_SERVICE"  # how the settings reach the workers
KEYS_VARIABLE = "TASTESPACE_API_KEYS"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the model and the ratings are, who may ask, and how much."""

    model: str  # the artifact
    state: str | None = None  # folder of versions and of the embedded database; None for one beside the model
    database: str | None = None  # URL; None for SQLite in the state folder
    keys: str | None = None  # file of API keys; None for those of the environment, if any
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    origins: tuple[str, ...] = ()  # web pages of these may ask (CORS)
    new_items: bool = False  # whether ratings of items that the model does not know are stored
    most_items: int = 1000  # in one list, and in one question
    most_ratings: int = 10_000  # in one request
    body_bytes: int = 4 << 20
    seconds: float = 30.0  # until a request is given up
    rate: float = 200.0  # requests a second of one client, in each worker; 0 for any number
    cached_users: int = 256  # beliefs kept, in each worker
    poll_seconds: float = 0.5  # between looks for another model
    kept_versions: int = 5

    def check(self) -> None:
        """Refuse what makes no sense."""
        whole_number("port", self.port, least=0)
        for name in ("workers", "most_items", "most_ratings", "body_bytes", "cached_users", "kept_versions"):
            whole_number(name, getattr(self, name), least=1)
        number("seconds", self.seconds, above=0)
        number("poll_seconds", self.poll_seconds, above=0)
        number("rate", self.rate, least=0)
        if self.port > 65535:
            raise InvalidParameterError(f"port is {self.port}; expected one up to 65535")

    @property
    def folder(self) -> Path:
        """Where versions of the model and the embedded database are."""
        model = Path(self.model).resolve()
        return model.parent / f"{model.name}-state" if self.state is None else Path(self.state).resolve()

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.folder / 'ratings.db'}"

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine can ask."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown_host(self) -> str:
        """As it stands in an address."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        known = {field.name for field in fields(cls)}
        given: dict[str, Any] = {name: value for name, value in json.loads(text).items() if name in known}
        return cls(**{**given, "origins": tuple(given.get("origins", ()))})
