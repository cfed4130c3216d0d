"""Features of documents and images: retrieval on Reuters-21578 and CIFAR-10, times, and what they tell of cold items.

1. choose: settings of the default on training documents of Reuters-21578 (ModApte), a part of which is held out and
   asked for, and on the plots of MovieLens 1M (a hit: half of the genres in common). Topics and genres are never used
   to fit.
2. reuters: every preset, fitted on the 7 775 training documents with topics; the 3 019 test documents ask for the 10
   and 100 nearest training documents by the cosine. A hit shares a topic.
3. cifar: every preset of images, fitted on the training images; test images ask for the 10 nearest training images. A
   hit has the same class; chance is a tenth. Settings were chosen on training images.
4. times: 20 000 documents to features and index with the default, and a query.
5. cold: a tenth of the articles of citeulike-t, or of the films of MovieLens 1M, held out with all their ratings; texts
   as feature groups, beside genres alone, and profiles of tf-idf.

`python benchmarks/content.py SECTION [--data FOLDER] [--presets a,b] [--images FOLDER] [--n-train N]`
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tastespace import storage
from tastespace.content.documents import DocumentFeatures
from tastespace.content.images import ImageFeatures
from tastespace.content.model import ContentModel
from tastespace.content.pictures import Images, read_images
from tastespace.content.reading import Documents, read_reuters
from tastespace.content.reductions import unit
from tastespace.errors import TastespaceWarning

DEPTHS = (10, 100)
DOCUMENT_PRESETS = {
    "default": {},
    "lsa": {},
    "lsa-16": {"preset": "lsa", "n_vectors": 16},
    "lsa-64": {"preset": "lsa", "n_vectors": 64},
    "lsa-128": {"preset": "lsa", "n_vectors": 128},
    "tfidf-lsa-64": {"preset": "lsa", "n_vectors": 64, "weighting": "tfidf"},
    "tfidf-lsa-128": {"preset": "lsa", "n_vectors": 128, "weighting": "tfidf"},
    "tfidf": {},
    "counts": {"preset": "tfidf", "weighting": "counts"},
    "word2vec": {},
    "word2vec-sae": {},
    "counts-low-dimension": {},
    "boolean-rbm": {},
    "tfidf-sae": {},
    "lsa-sae": {"preset": "default", "network": "autoencoder"},
    "lsa-sae-64": {"preset": "default", "network": "autoencoder", "n_features": 64, "hidden": 128, "dropout": 0.0},
}


def say(*figures: Any) -> None:
    print(*(f"{each:.4f}" if isinstance(each, float) else each for each in figures), sep="\t", flush=True)


def precision(base: Any, queries: Any, is_hit: Any, depths: tuple[int, ...] = DEPTHS) -> np.ndarray:
    """The share of hits among the nearest, by depth: the mean over queries. `is_hit` gives rows of a relation."""
    sums, n = np.zeros(len(depths)), queries.shape[0]
    for start in range(0, n, 500):
        some = slice(start, start + 500)
        product = queries[some] @ base.T
        scores = product if isinstance(product, np.ndarray) else product.toarray()
        top = np.argpartition(-scores, depths[-1], axis=1)[:, : depths[-1]]
        order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
        hits = np.take_along_axis(is_hit(some), np.take_along_axis(top, order, axis=1), axis=1)
        sums += [hits[:, :depth].mean(axis=1).sum() for depth in depths]
    return sums / n


def memberships(*parts: list[list[str]]) -> list[np.ndarray]:
    """Lists of topics as zeros and ones, with the same columns for all parts."""
    names = {name: place for place, name in enumerate(sorted({name for part in parts for own in part for name in own}))}
    found = []
    for part in parts:
        matrix = np.zeros((len(part), len(names)), np.float32)
        for row, own in enumerate(part):
            matrix[row, [names[name] for name in own]] = 1
        found.append(matrix)
    return found


def rows_unit(vectors: Any) -> Any:
    """Rows of length 1, dense or sparse."""
    if isinstance(vectors, np.ndarray):
        return unit(vectors)
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)).reshape(-1))
    import scipy.sparse as sp

    return sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ vectors


def take(documents: Documents, rows: np.ndarray) -> Documents:
    """The documents at these positions."""
    kept = np.zeros(len(documents), np.bool_)
    kept[rows] = True
    return documents.only(pl.Series(kept))


def plots(data: Path) -> Documents:
    """The plots of the films of MovieLens 1M."""
    films = pl.read_parquet(data / "ml-1m" / "films.parquet").filter(pl.col("plot").str.len_chars() > 20)
    return Documents(films["item"], films["title"], films["plot"].to_list(), films.select("genres"))


def choose(data: Path, options: argparse.Namespace) -> None:
    """Held-out training documents ask for the others."""
    say("data", "title weight", "vectors", "neighbors", "weight", "precision@10", "precision@100")
    for name, documents in (("reuters", read_reuters(data / "reuters-21578", "train")), ("plots", plots(data))):
        order = np.random.default_rng(0).permutation(len(documents))
        n = 2000 if name == "reuters" else 1000
        fitted, asked = np.sort(order[n:]), np.sort(order[:n])
        parts = take(documents, fitted), take(documents, asked)
        if name == "reuters":
            own, theirs = memberships(*(part.attributes["topics"].to_list() for part in parts))

            def is_hit(some: slice, own: Any = own, theirs: Any = theirs) -> np.ndarray:
                return theirs[some] @ own.T > 0
        else:
            own, theirs = memberships(*(part.attributes["genres"].to_list() for part in parts))

            def is_hit(some: slice, own: Any = own, theirs: Any = theirs) -> np.ndarray:
                common = theirs[some] @ own.T
                return common / (theirs[some].sum(1)[:, None] + own.sum(1) - common) >= 0.5

        for weight in (1, 2, 3):
            texts = [replace(part, title_weight=weight).material for part in parts]
            for n_vectors in (64, 96, 128):
                for n_neighbors, share in ((0, 0.0), (10, 1.0), (20, 1.0), (40, 1.0)):
                    features = DocumentFeatures(
                        n_vectors=n_vectors, n_neighbors=n_neighbors, neighbor_weight=share, seed=0
                    )
                    base = features.fit_transform(texts[0])
                    found = precision(base, features.transform(texts[1]), is_hit)
                    say(name, weight, n_vectors, n_neighbors, share, *map(float, found))


def reuters(data: Path, options: argparse.Namespace) -> None:
    """Every preset, on the test part."""
    parts = [read_reuters(data / "reuters-21578", part) for part in ("train", "test")]
    own, theirs = memberships(*(part.attributes["topics"].to_list() for part in parts))
    say("documents", *map(len, parts), "random", float((theirs @ own.T > 0).mean()))
    say("preset", "columns", "precision@10", "precision@100", "processor s")
    for name in options.presets or DOCUMENT_PRESETS:
        settings = dict(DOCUMENT_PRESETS.get(name, {}))
        features = DocumentFeatures.preset(settings.pop("preset", name), **settings, seed=0)
        began = time.process_time()
        base = features.fit_transform(parts[0].material)
        seconds = time.process_time() - began
        queries = features.transform(parts[1].material)
        found = precision(rows_unit(base), rows_unit(queries), lambda some: theirs[some] @ own.T > 0)
        say(name, base.shape[1], *map(float, found), f"{seconds:.0f}")


def classes(images: Images) -> np.ndarray:
    """The class of each image: the last folder of its name."""
    return images.attributes["folder"].str.split("/").list.last().to_numpy()


def cifar(data: Path, options: argparse.Namespace) -> None:
    """Every preset of images; `--images` is where the archive was unpacked, with `train` and `test`."""
    folder = options.images or data / "cifar-10" / "unpacked"
    parts = [read_images(folder / part) for part in ("train", "test")]
    if options.choosing:  # training images ask for other training images
        order = np.random.default_rng(1).permutation(len(parts[0]))
        parts = [parts[0].only(np.sort(order[2000:])), parts[0].only(np.sort(order[:2000]))]
    if options.n_train:
        order = np.random.default_rng(0).permutation(len(parts[0]))[: options.n_train]
        parts[0] = parts[0].only(np.sort(order))
    own, theirs = (classes(part) for part in parts)
    say("images", *map(len, parts))
    say("preset", "columns", "same class of 10", "lift over chance", "processor s")
    network = None  # trained once: the presets differ in what follows
    for name in options.presets or ("pixels", "pca", "hog", "default", "autoencoder", "autoencoder-pca"):
        features = ImageFeatures.preset(name, **({"epochs": options.epochs} if options.epochs else {}), seed=0)
        began = time.process_time()
        if network is not None and features.method == "autoencoder":
            features.network_ = network
            base = features._fit_vectors(parts[0].material)
        else:
            base = features.fit_transform(parts[0].material)
        network = features.network_ or network
        seconds = time.process_time() - began
        queries = features.transform(parts[1].material)
        found = precision(base, queries, lambda some: theirs[some, None] == own[None], (10,))[0]
        say(name, base.shape[1], float(10 * found), float(found / 0.1), f"{seconds:.0f}")
        if options.keep and features.network_ is not None:
            storage.write_arrays(options.keep, features.network_.arrays())


def times(data: Path, options: argparse.Namespace) -> None:
    """20 000 documents, all of Reuters-21578 with some of it again in another order of words."""
    documents = read_reuters(data / "reuters-21578")
    texts = documents.texts[:20_000]
    documents = Documents(pl.Series("item", range(len(texts))), documents.titles[: len(texts)], texts)
    began, processor = time.perf_counter(), time.process_time()
    model = ContentModel(DocumentFeatures()).fit(documents)
    say(
        f"{len(texts):,} documents, {sum(map(len, texts)) / 1e6:.1f} MB to features and index",
        f"{time.perf_counter() - began:.1f} s",
        f"{time.process_time() - processor:.1f} s of processors",
    )
    queries = ("Economic news", "United States", "India", *(text[:200] for text in texts[:200]))
    model.search(queries[0])
    taken = []
    for query in queries:
        began = time.perf_counter()
        model.search(query)
        taken.append(1000 * (time.perf_counter() - began))
    say(f"{len(queries)} queries", f"median {np.median(taken):.1f} ms", f"90 % below {np.quantile(taken, 0.9):.1f} ms")


SECTIONS = {"choose": choose, "reuters": reuters, "cifar": cifar, "times": times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TASTESPACE_DATA", "data")))
    parser.add_argument("--presets", type=lambda text: text.split(","))
    parser.add_argument("--images", type=Path)
    parser.add_argument("--n-train", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--choosing", action="store_true", help="training images ask for other training images")
    parser.add_argument("--keep", type=Path, help="file to write the trained network to")
    options = parser.parse_args()
    warnings.simplefilter("ignore", TastespaceWarning)
    SECTIONS[options.section](options.data, options)


if __name__ == "__main__":
    main()
