"""Compare two installs of tastespace on one machine: the same cases, everything they answer, exactly.

    python tests/net/compare_editions.py --old PATH_OR_PYTHON --new PATH_OR_PYTHON

Each side is a Python interpreter, or a source tree: its `src` goes on PYTHONPATH, with its own environment (`.venv`) if
there is one. Nothing is compared with what was stored before: both sides are run now, by `edition/probe.py`. Arrays
must have the same bytes and numbers be equal. What only the new side has is allowed and told; sentences (messages,
remarks) are not compared, nor is what depends on time, place or version. Exit code 1 when something differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PROBE = Path(__file__).parent / "edition" / "probe.py"
# Arrays that the new edition calls otherwise: a pattern of the old name, and the new one. Arrays of the same bytes
# under another name are found without it, and told.
RENAMED_ARRAYS: dict[str, str] = {}
# Fields that tell of the moment or the machine, or are lists of sentences: not compared.
IGNORED = {"at", "seconds", "remarks", "warnings"}
IGNORED_ENDINGS = ("_seconds", "_mb")
# Parameters that are settings of a likelihood or prior since the second edition, and these two themselves.
MOVED = re.compile(
    r"parameters/(levels|likelihood|most_factors|n_negatives|negatives|noise|noise_(precision|rate|shape)|prior)$"
)
# Fields that hold a sentence: it must be there, and may say it in other words.
SENTENCES = {
    *("because", "command", "detail", "error", "found_by", "how", "kind_reason", "meaning", "message", "reason"),
    *("schedule", "seen", "verdict", "warning", "what"),
}
MOST_LINES = 12  # of one case


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def show(text: str) -> None:
    """What is going on, on one line of a terminal that is written over."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")


class Difference(NamedTuple):
    """Something that is not the same: in which case, what, and how large."""

    case: str
    what: str
    how: str


# Running


def command_of(side: str) -> tuple[list[str], dict[str, str]]:
    """How Python is started for this side, and with which environment."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # One thread of BLAS: sums of a matrix product depend on how many there are.
    environment |= {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    environment |= {"PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
    path = Path(side)
    if path.is_dir():
        source = path / "src" if (path / "src" / "tastespace").is_dir() else path
        if not (source / "tastespace").is_dir():
            sys.exit(f"{side} has no src/tastespace; expected a source tree of tastespace, or a Python interpreter")
        own = path / ".venv" / "bin" / "python"
        command = [str(own.absolute()) if own.exists() else sys.executable]
        environment |= {"PYTHONPATH": str(source.resolve())}
        check_imported(command, environment, source)
        return command, environment
    if not (path.is_file() and os.access(path, os.X_OK)):
        sys.exit(f"there is no {side}; expected a source tree of tastespace, or a Python interpreter")
    return [str(path.absolute())], environment


def check_imported(command: list[str], environment: dict[str, str], source: Path) -> None:
    """Stop if an editable install of another tree comes before this one: it would be compared with itself."""
    code = "import tastespace; print(tastespace.__file__)"
    found = subprocess.run([*command, "-c", code], env=environment, cwd="/", capture_output=True, text=True)
    if found.returncode or not Path(found.stdout.strip()).resolve().is_relative_to(source.resolve()):
        sys.exit(
            f"{command[0]} imports {found.stdout.strip() or found.stderr.strip()}, expected tastespace of {source}: "
            "set up that tree (make test there), or pass the Python of an environment where it is installed"
        )


def probe(side: str, out: Path, pattern: str, shard: int, shards: int) -> float:
    """Run one part of the cases on one side; how many seconds it took."""
    command, environment = command_of(side)
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*command, str(PROBE), str(out), pattern, str(shard), str(shards)],
        env=environment,
        cwd=out.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        show(f"{out.name} {line.strip()}")
    show("")
    if process.wait():
        sys.stderr.write(f"{out.name}: the probe ended with {process.returncode}\n")
    return time.perf_counter() - begun


def read(folder: Path) -> dict[str, tuple[dict[str, np.ndarray], dict[str, Any]]]:
    """Arrays and values of each case."""
    found = {}
    for case in sorted(folder.glob("*/values.json")):
        said = json.loads(case.read_text())
        with np.load(case.with_name("arrays.npz")) as stored:
            arrays = {name: stored[str(place)] for place, name in enumerate(said["arrays"])}
        values = said["values"]
        found[values["case"]["name"]] = arrays, values
    return found


# Comparing


def compare_arrays(
    case: str, old: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]
) -> Iterator[Difference | str]:
    """Differences; what is only told comes as text."""
    old = {renamed(name, new): array for name, array in old.items() if not is_ignored(name)}
    lost = [name for name in old if name not in new]
    added = [name for name in new if name not in old and not is_ignored(name)]
    for name in lost:
        same = [other for other in added if is_same(old[name], new[other])]
        same.sort(key=lambda other: (other.rsplit("/", 1)[-1] != name.rsplit("/", 1)[-1], other))
        if same:
            added.remove(same[0])
            yield f"{name} is now {same[0]}"
        else:
            yield Difference(case, name, f"is missing: {shape_of(old[name])}")
    for name in added:
        yield f"{name} is new"
    for name in old:
        if name in new and not is_same(old[name], new[name]):
            yield Difference(case, name, how_different(old[name], new[name]))


def renamed(name: str, there: Mapping[str, Any]) -> str:
    for pattern, other in RENAMED_ARRAYS.items():
        if re.search(pattern, name) and name not in there:
            return re.sub(pattern, other, name)
    return name


def is_same(old: np.ndarray, new: np.ndarray) -> bool:
    return old.dtype == new.dtype and old.shape == new.shape and old.tobytes() == new.tobytes()


def shape_of(array: np.ndarray) -> str:
    return f"{array.dtype} {'x'.join(map(str, array.shape)) or 'number'}"


def how_different(old: np.ndarray, new: np.ndarray) -> str:
    if old.dtype != new.dtype or old.shape != new.shape:
        return f"was {shape_of(old)}, is {shape_of(new)}"
    left, right = np.atleast_1d(old), np.atleast_1d(new)
    unequal = (left != right) & ~((left != left) & (right != right))  # two missing numbers are equal
    number = int(np.count_nonzero(unequal))
    if not number:
        return f"the same numbers in other bytes (signs of zero), {shape_of(old)}"
    first = np.argwhere(unequal)[0].tolist()
    if old.dtype.kind in "fiu":
        with np.errstate(all="ignore"):
            largest = np.nanmax(np.abs(left.astype(np.float64) - right.astype(np.float64)))
        size = f"largest difference {largest:.3g}"
    else:
        size = "differs"
    example = f"{left[tuple(first)]} -> {right[tuple(first)]}"
    return f"{size} ({number} of {left.size} values, {shape_of(old)}; at {first} {example})"


def field_of(name: str) -> str:
    """The last part of a name: `seconds` of `trials[seconds]`."""
    return re.split(r"[\[/]", name.rstrip("]"))[-1]


def is_ignored(name: str) -> bool:
    return field_of(name) in IGNORED or field_of(name).endswith(IGNORED_ENDINGS) or MOVED.search(name) is not None


def compare_values(case: str, what: str, old: Any, new: Any, in_words: bool = False) -> Iterator[Difference | str]:
    """Of JSON; what is only told comes as text. Texts of a field `in_words` are not compared."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from compare_fields(case, what, old, new)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield Difference(case, what, f"had {len(old)} entries, has {len(new)}")
        for place, (left, right) in enumerate(zip(old, new, strict=False)):
            yield from compare_values(case, f"{what}[{place}]", left, right, in_words)
    elif is_number(old) and is_number(new):
        if old != new and not (old != old and new != new):
            yield Difference(case, what, f"largest difference {abs(old - new):.3g} ({old!r} -> {new!r})")
    elif old != new and not (in_words and isinstance(old, str) and isinstance(new, str)):
        yield Difference(case, what, f"{short(old)} -> {short(new)}")


def compare_fields(case: str, what: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference | str]:
    for key, value in old.items():
        name = f"{what}/{key}" if what else key
        if is_ignored(key):
            continue
        if key not in new:
            yield Difference(case, name, f"is missing: {short(value)}")
        else:
            yield from compare_values(case, name, value, new[key], field_of(key) in SENTENCES)
    yield from (f"{what}/{key} is new" if what else f"{key} is new" for key in new if key not in old)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def compare_cases(case: str, old: Any, new: Any) -> Iterator[Difference | str]:
    yield from compare_arrays(case, old[0], new[0])
    yield from compare_values(case, "", without_name(old[1]), without_name(new[1]))


def without_name(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in ("case", "fails", "was interrupted")}


def compare_all(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[Difference], dict[str, list[str]]]:
    """What differs, and what is only told, with the cases it was seen in."""
    differences: list[Difference] = []
    notes: dict[str, list[str]] = {}
    for case, answers in old.items():
        if case not in new:
            differences.append(Difference(case, "the case", "was not run by the new edition"))
            continue
        for found in compare_cases(case, answers, new[case]):
            if isinstance(found, Difference):
                differences.append(found)
            else:
                notes.setdefault(found, []).append(case)
    for side, answers in (("old", old), ("new", new)):
        for case, (arrays, values) in answers.items():
            if "fails" in values:
                differences.append(Difference(case, "the case", f"fails in the {side} edition: {values['fails']}"))
            equals = values["case"]["equals"]
            if equals in answers:
                title = f"{case} (in the {side} edition, against {equals})"
                compared = compare_cases(title, answers[equals], (arrays, values))
                differences += [found for found in compared if isinstance(found, Difference)]
            if values.get("was interrupted") is False:
                differences.append(Difference(case, "the run", f"was not interrupted in the {side} edition"))
    return differences, notes


def report(differences: list[Difference], notes: Mapping[str, list[str]], n_cases: int, n_values: int) -> None:
    for note, where in list(notes.items())[:40]:
        say(f"note: {note}  ({where[0]}{f' and {len(where) - 1} more' if len(where) > 1 else ''})")
    if len(notes) > 40:
        say(f"note: ... and {len(notes) - 40} more")
    by_case: dict[str, list[Difference]] = {}
    for difference in differences:
        by_case.setdefault(difference.case, []).append(difference)
    for case, found in by_case.items():
        say(f"\n{case}")
        for difference in found[:MOST_LINES]:
            say(f"  {difference.what}: {difference.how}")
        if len(found) > MOST_LINES:
            say(f"  ... and {len(found) - MOST_LINES} more")
    if differences:
        say(f"\n{len(differences)} differences in {len(by_case)} of {n_cases} cases")
    else:
        say(f"the same: {n_cases} cases, {n_values} arrays and values")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", help="source tree or Python interpreter of the first edition")
    parser.add_argument("--new", help="source tree or Python interpreter to compare with it")
    parser.add_argument("--only", default="", metavar="PATTERN", help="cases whose names match this expression")
    parser.add_argument("--except", dest="but", metavar="PATTERN", help="differences that are meant: what matches this")
    parser.add_argument("--workers", type=int, default=1, help="probes at a time")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what both sides wrote in this folder")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    given = parser.parse_args()
    if given.list:
        command, environment = command_of(given.old or given.new or parser.error("expected --old or --new"))
        subprocess.run([*command, str(PROBE), "list", given.only, "0", "1"], env=environment, check=True)
        return
    if not (given.old and given.new):
        parser.error("expected --old and --new")
    if given.keep is not None and given.keep.exists():
        parser.error(f"{given.keep} exists; expected a new folder")
    with tempfile.TemporaryDirectory(prefix="editions-") as scratch:
        folder = Path(scratch) if given.keep is None else given.keep.resolve()
        for side in ("old", "new"):
            (folder / side).mkdir(parents=True)
        jobs = [(side, shard) for shard in range(given.workers) for side in ("old", "new")]

        def run(job: tuple[str, int]) -> float:
            side, shard = job
            return probe(getattr(given, side), folder / side, given.only, shard, given.workers)

        with ThreadPoolExecutor(given.workers) as pool:
            seconds = list(pool.map(run, jobs))
        sides = {side: read(folder / side) for side in ("old", "new")}
    if not sides["old"]:
        sys.exit(f"no case was run: does one match {given.only!r}? (--list shows them)")
    differences, notes = compare_all(sides["old"], sides["new"])
    if given.but is not None:
        differences = [found for found in differences if not re.search(given.but, found.what)]
    n_values = sum(len(arrays) + len(values) for arrays, values in sides["old"].values())
    report(differences, notes, len(sides["old"]), n_values)
    spent = {side: sum(took for (which, _), took in zip(jobs, seconds, strict=True) if which == side) for side in sides}
    say(f"{spent['old']:.0f} s with the old edition, {spent['new']:.0f} s with the new one")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
