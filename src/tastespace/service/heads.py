"""A limit for request lines and headers, which come before anything of ours looks at a request."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 1 << 16
TOO_LONG = "The request line and headers are too long."


class BoundedHeads(HttpToolsProtocol):
    """httptools reads requests in C, half a millisecond faster than in Python, and keeps whatever comes until a head is
    complete."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head = 0  # bytes of a head that is not complete
        self._is_in_head, self._has_ended_one = True, False

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Where another request ended in the same piece, it is not known how much of it was a head.
        is_all_head = self._is_in_head and not self._has_ended_one
        self._head, self._has_ended_one = self._head + len(data) if is_all_head else 0, False
        if self._head > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(TOO_LONG)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head = self._has_ended_one = True
        super().on_message_complete()
