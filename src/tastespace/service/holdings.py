"""What a service holds of users, in all places: the database, the artifact and the versions that are kept."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from tastespace import artifact
from tastespace.artifact import erasure
from tastespace.errors import InvalidParameterError, UnknownIdError
from tastespace.service.live_model import FORGET, LiveModel, Versions
from tastespace.service.settings import Settings
from tastespace.service.store import Store


class Holdings:
    """The database, the artifact and the kept versions of a service, which may be running."""

    def __init__(self, settings: Settings) -> None:
        self._store: Store | None = None
        if settings.database is not None or (settings.folder / "ratings.db").is_file():
            self._store = Store(settings.database_url)
            self._store.migrate()
        self._settings = settings
        self._model, self._versions = Path(settings.model), Versions(settings.folder / "versions")

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def deleted(self) -> list[str]:
        """Users who were deleted in the database, and have no ratings now."""
        return [] if self._store is None else self._store.deleted()

    def about(self, user: str) -> dict[str, Any]:
        """What each place has of a user: numbers of rows and ratings; None where they are unknown."""
        rows = {} if self._store is None else self._store.about(user)
        return {
            "user": user,
            "database": {name: len(found) for name, found in rows.items()},
            "was_deleted": any(row["deleted_at"] for row in rows.get("people", [])),
            "model": erasure.count_ratings(self._model, user),
            "versions": {
                name: erasure.count_ratings(self._versions.path(name), user) for name in self._versions.kept()
            },
        }

    def export(self, user: str) -> dict[str, Any]:
        """Everything that is stored about a user: rows of the database, and numbers of ratings that versions have."""
        found = {} if self._store is None else self._store.about(user)
        return exported(user, found, self._versions)

    def live(self) -> LiveModel:
        """The versions that answer, to be changed; the workers of the service follow within a second."""
        return LiveModel(self._settings, self._started(), self._versions, lambda activation: None)

    def answering(self) -> dict[str, Any]:
        """The version that is active, and the challenger, if there is one."""
        store = self._started()
        activation, trial = store.activation(), store.trial()
        assert activation is not None
        told = None if trial is None else trial.to_dict()
        return {"version": activation.version, "challenger": told}

    def _started(self) -> Store:
        """The database, in which a service has activated a version."""
        if self._store is None or self._store.activation() is None:
            raise InvalidParameterError(
                f"no service of {self._model} has started with this database; expected one that has: tastespace serve "
                f"{self._model}"
            )
        return self._store

    def erase(self, users: Collection[str]) -> dict[str, Any]:
        """Erase users everywhere; a running service answers without them as soon as it has noticed."""
        users = list(dict.fromkeys(users))
        artifact.verified(self._model)  # Nothing is done if not all can be.
        n_ratings = 0
        for user in users if self._store is not None else ():
            assert self._store is not None
            if any(self._store.about(user).values()):
                n_ratings += self._store.forget(user)
        found = {name: erasure.erase(self._versions.path(name), users) for name in self._versions.kept()}
        places = {str(self._model): erasure.erase(self._model, users)}
        places |= {str(self._versions.path(name)): n for name, n in found.items()}
        active = None if self._store is None else self._store.activation()
        if self._store is not None and active is not None and any(found.values()):
            self._store.activate(active.version, FORGET)  # Workers load it again.
        return {"users": users, "ratings": n_ratings, "places": places}


def exported(user: str, database: dict[str, list[dict[str, Any]]], versions: Versions) -> dict[str, Any]:
    """An export: these rows of the database, and the number of ratings in each version that knows the user."""
    known = {name: erasure.count_ratings(versions.path(name), user) for name in versions.kept()}
    versions_of_user = {name: n for name, n in known.items() if n is not None}
    if not any(database.values()) and not versions_of_user:
        raise UnknownIdError(f"the user {user!r} is unknown")
    return {"user": user, "database": database, "versions": versions_of_user}
