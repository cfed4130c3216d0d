"""The text reader, character by character: slow, and plain enough to be believed."""

from __future__ import annotations

import math

import numpy as np


def split(content: str, separator: str) -> list[tuple[int, list[tuple[str, bool]] | None]]:
    """Where each record starts, and its fields with whether they were quoted; None where a quote is out of place."""
    knows_quotes = len(separator) == 1 and '"' in content
    records, at = [], 0
    while at < len(content):
        start = at
        fields, at = _fields(content, at, separator, knows_quotes)
        if fields is None:
            line_end = content.find("\n", start)
            at = len(content) if line_end < 0 else line_end + 1
        records.append((start, fields))
    return records


def _fields(content, at, separator, knows_quotes):
    fields = []
    while True:
        if knows_quotes and content[at : at + 1] == '"':
            text, at = _quoted(content, at + 1)
            if text is None:
                return None, at
            ends_line = content[at : at + 2] == "\r\n" or content[at:] == "\r"
            at += ends_line
            if at < len(content) and content[at] != "\n" and (ends_line or content[at] != separator):
                return None, at
            fields.append((text, True))
        else:
            start = at
            while at < len(content) and content[at] != "\n" and not content.startswith(separator, at):
                at += 1
            text = content[start:at]
            if at == len(content) or content[at] == "\n":
                text = text.removesuffix("\r")
            fields.append((text, False))
        if at == len(content):
            return fields, at
        if content[at] == "\n":
            return fields, at + 1
        at += len(separator)


def _quoted(content, at):
    text = ""
    while at < len(content):
        if content[at] != '"':
            text += content[at]
            at += 1
        elif content[at + 1 : at + 2] == '"':
            text += '"'
            at += 2
        else:
            return text, at + 1
    return None, at


def read(content: str, separator: str, n_columns: int):
    """User, item and rating of each good record of three parts; and the kinds of fault, in order."""
    good, faults = [], []
    for _, fields in split(content, separator):
        if fields is None:
            faults.append("quote")
            continue
        if (len(fields) <= 1 or separator == " ") and not any(text.strip(" \t\r\n") for text, _ in fields):
            continue
        if len(fields) != n_columns:
            faults.append("ragged")
            continue
        ids = [text if quoted else text.strip(" \t") for text, quoted in fields[:2]]
        number = fields[2][0].strip(" \t")
        if not all(name.strip(" \t\r\n") for name in ids) or not number:
            faults.append("missing")
        elif not _is_number(number):
            faults.append("not a number")
        else:
            good.append((*ids, np.float32(float(number))))
    return good, faults


def _is_number(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return "_" not in text and text.isascii() and math.isfinite(value) and abs(value) <= np.finfo(np.float32).max
