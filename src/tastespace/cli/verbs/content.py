"""`tastespace content`: learn features of documents and images, search by them, and write them for `fit`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from tastespace import storage
from tastespace.cli import console
from tastespace.cli.options import Json, check_known, read_settings, require
from tastespace.content import features_type
from tastespace.errors import DataError, InvalidParameterError, warn

if TYPE_CHECKING:
    from tastespace.content.model import ContentModel

Kind = Literal["text", "images"]
Source = Annotated[
    Path, Argument(help="Folder, archive, table with a column of texts, or files of Reuters-21578.", metavar="SOURCE")
]
Content = Annotated[Path, Argument(help="Folder of a content model.", metavar="CONTENT")]
TextColumn = Annotated[
    str | None, Option("--text-column", help="Columns of the texts, separated by commas.", show_default="guessed")
]
IdColumn = Annotated[str | None, Option("--id-column", help="Column of the item ids.", show_default="guessed")]
TitleColumn = Annotated[str | None, Option("--title-column", help="Column of the titles.", show_default="guessed")]


def fit(
    source: Source,
    out: Annotated[Path, Option("--out", "-o", help="Folder to write the content model to.")],
    kind: Annotated[Kind, Option(help="What is in SOURCE: text or images.")] = "text",
    preset: Annotated[str, Option(help="A pipeline by name.")] = "default",
    set_: Annotated[
        list[str] | None, Option("--set", help="A parameter, key=value, such as n_vectors=64; can be repeated.")
    ] = None,
    text_column: TextColumn = None,
    id_column: IdColumn = None,
    title_column: TitleColumn = None,
    json: Json = False,
) -> None:
    """Learn features of documents or images, and write a content model that can be searched."""
    from tastespace.content import storing
    from tastespace.content.model import ContentModel

    storing.check_writable(out)
    features = _features(kind, preset, read_settings(set_ or []))
    began = time.perf_counter()
    with console.progress() as observer:
        content = _read(kind, source, text_column, id_column, title_column, features, observer)
        model = ContentModel(features).fit(content, observer=observer)
    storing.save(model, out)
    seconds = time.perf_counter() - began
    n_unknown = int((~model.is_known_).sum())
    said = {
        "out": str(out),
        "kind": kind,
        "preset": preset,
        "n_items": len(model.items_),
        "n_features": int(model.vectors_.shape[1]),
        "n_without_features": n_unknown,
        "seconds": round(seconds, 3),
        "remarks": list(content.remarks),
    }
    unknown = f"; {n_unknown:,} have none, as nothing is known of their content" if n_unknown else ""
    query = '"some words"' if kind == "text" else "--image FILE"
    console.print_result(
        json,
        said,
        *content.remarks,
        f"{len(model.items_):,} items with {model.vectors_.shape[1]:,} features in {seconds:.1f} s{unknown}",
        f"saved to {out}; next: tastespace content search {out} {query}",
    )


def _features(kind: Kind, preset: str, parameters: dict[str, Any]) -> Any:
    """The features of a preset with these parameters, all checked."""
    kinds: Any = features_type(kind)
    known = kinds().get_params()
    for parameter in parameters:
        check_known(parameter, known, f"features of {kind} have no parameter {parameter!r}")
    features = kinds.preset(preset, **parameters)
    features.check()
    return features


def _read(
    kind: str, source: Path, text: str | None, id: str | None, title: str | None, features: Any, observer: Any
) -> Any:
    if kind == "text":
        from tastespace.content.reading import read_documents

        columns = None if text is None else [name.strip() for name in text.split(",")]
        return read_documents(source, text=columns, id=id, title=title, observer=observer)
    require(text is None and id is None and title is None, "columns are for texts; expected none of them for images")
    from tastespace.content.pictures import read_images

    return read_images(source, size=features.size, observer=observer)


def search(
    content: Content,
    query: Annotated[str | None, Argument(help="Words to look for.", metavar="[WORDS]", show_default=False)] = None,
    image: Annotated[Path | None, Option(help="Image to look for.", metavar="FILE")] = None,
    item: Annotated[str | None, Option(help="Item to find similar ones to.", metavar="ID")] = None,
    n: Annotated[int, Option("-n", "--top", help="Number of items.", min=1)] = 10,
    json: Json = False,
) -> None:
    """Find the items whose content fits words, an image, or another item best."""
    from tastespace.content.storing import load

    given = [part for part in (query, image, item) if part is not None]
    require(len(given) == 1, 'expected one of: "some words", --image FILE, --item ID')
    model = load(content)
    wants = "text" if query is not None else "images" if image is not None else model.features.kind
    if model.features.kind != wants:
        raise InvalidParameterError(
            f"{content} is of {model.features.kind}; expected {'words' if wants == 'images' else '--image FILE'}"
        )
    began = time.perf_counter()
    found = _found(model, query, image, item, n)
    milliseconds = 1000 * (time.perf_counter() - began)
    said = found.to_dict() | {"content": str(content), "milliseconds": round(milliseconds, 2)}
    if json:
        console.print_json(said)
        return
    console.print_line(*found.remarks)
    rows = [
        [str(entry["rank"]), f"{entry['similarity']:.3f}", entry["item"], entry["title"] or entry["excerpt"] or ""]
        for entry in said["items"]
    ]
    if rows:
        console.print_rows(["", "similarity", "item", "title or beginning"], rows)


def _found(model: ContentModel, query: str | None, image: Path | None, item: str | None, n: int) -> Any:
    if query is not None:
        return model.search(query, n)
    if item is not None:
        return model.similar(item, n)
    from tastespace.content.pictures import read_image

    assert image is not None
    return model.search(read_image(image, model.features.size), n, name=str(image))


def features(
    content: Content,
    source: Annotated[
        Path | None, Argument(help="Other documents or images; by default those learned from.", metavar="[SOURCE]")
    ] = None,
    out: Annotated[Path, Option("--out", "-o", help="File to write: .parquet.")] = Path("features.parquet"),
    text_column: TextColumn = None,
    id_column: IdColumn = None,
    title_column: TitleColumn = None,
    json: Json = False,
) -> None:
    """Write the features of items to a file for `fit --item-features`."""
    from tastespace.content.storing import load

    if out.suffix.lower() != ".parquet" or not out.resolve().parent.is_dir():
        raise DataError("the features cannot be written there", file=out, expected="a .parquet file in a folder")
    model = load(content)
    with console.progress() as observer:
        other = None
        if source is not None:
            other = _read(model.features.kind, source, text_column, id_column, title_column, model.features, observer)
            for remark in other.remarks:
                warn(remark)
        frame = model.feature_frame(other, observer=observer)
    with storage.replace_file(out) as stream:
        frame.write_parquet(stream)
    width = int(model.vectors_.shape[1])
    n_missing = frame["content"].null_count()
    said = {"out": str(out), "n_items": frame.height, "n_features": width, "n_without_features": n_missing}
    console.print_result(
        json,
        said,
        f"{frame.height:,} items with {width:,} features in {out}"
        + (f", of which {n_missing:,} have none" if n_missing else ""),
        f"next: tastespace fit RATINGS --item-features {out} --out MODEL",
    )


VERBS: dict[str, Callable[..., None]] = {"fit": fit, "search": search, "features": features}
