"""Versions of the model: each is a folder of its own that nobody changes, so that going back is always possible."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tastespace import artifact
from tastespace.errors import ArtifactError


@dataclass(frozen=True)
class Versions:
    """Folders of artifacts, by name."""

    folder: Path

    def path(self, version: str) -> Path:
        return self.folder / version

    def take(self, model: Path) -> str:
        """Keep the artifact as it is now, whatever becomes of it: the same files, linked where that is possible."""
        version = self.name_of(model)
        if not self.path(version).is_dir():
            self._link(model, [artifact.MANIFEST, *artifact.read_manifest(model)["files"]], version)
        return version

    def name_of(self, model: Path) -> str:
        """What the artifact as it is now is called.

        The name follows from the manifest, which has the seed, the parameters and the sizes of the files, and from the
        time of the largest of them.
        """
        manifest = artifact.read_manifest(model)
        try:
            text = (model / artifact.MANIFEST).read_bytes()
            posterior = (model / "posterior.safetensors").stat()
        except OSError as error:
            raise ArtifactError(f"{model}: the artifact cannot be read ({error.strerror})") from error
        known_by = text + f"{posterior.st_size} {posterior.st_mtime_ns}".encode()
        return f"{manifest['model']}-{hashlib.sha256(known_by).hexdigest()[:12]}"

    def drop_others(self, kept: set[str]) -> None:
        """Remove the folders of versions that can no longer be gone back to."""
        for entry in self.folder.iterdir() if self.folder.is_dir() else ():
            if entry.is_dir() and entry.name not in kept and not entry.name.startswith("."):
                shutil.rmtree(entry, ignore_errors=True)

    def _link(self, model: Path, names: list[str], version: str) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(prefix=".coming-", dir=self.folder))
            try:
                for name in names:
                    if Path(name).name != name:
                        raise ArtifactError(f"{model}: the manifest names a file {name!r}; the artifact is damaged")
                    _linked(model / name, temporary / name)
                temporary.chmod(0o755)
                temporary.rename(self.path(version))
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        except OSError as error:
            if isinstance(error, ArtifactError):
                raise
            if self.path(version).is_dir():
                return  # Another worker was faster.
            raise ArtifactError(f"{model} cannot be kept in {self.folder}: {error.strerror or error}") from error


def _linked(source: Path, place: Path) -> None:
    try:
        os.link(source, place)
    except OSError:
        shutil.copy2(source, place)
