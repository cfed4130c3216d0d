"""Stop without cutting anybody short: connections are ended by their last answer, not under a question."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import socket
import struct
import sys
import threading
from types import FrameType

SECONDS = 1.0  # from the signal until the door closes
SO_ATTACH_FILTER = 26  # of Linux


class Leaving:
    """Whether the service is about to stop. Answers then say that their connection ends with them.

    A server that closes connections at once may do so while a client sends the next question, which is then lost, and
    one that was let in a moment too late is never told to go.
    """

    def __init__(self) -> None:
        self.is_near = False

    def watch(self) -> None:
        """Heed SIGTERM before the server does; where there is one, which is in the main thread of a process."""
        if threading.current_thread() is not threading.main_thread():
            return
        servers_own, loop = signal.getsignal(signal.SIGTERM), asyncio.get_running_loop()
        if not callable(servers_own):
            return

        def leave(number: int, frame: FrameType | None) -> None:
            self.is_near = True
            loop.call_soon_threadsafe(loop.call_later, SECONDS, servers_own, number, None)

        signal.signal(signal.SIGTERM, leave)


def let_nobody_in(listening: socket.socket) -> None:
    """Leave new connections unanswered from now on, in all processes that share the socket, as Linux can.

    Those that wait in its queue can still be taken; when a socket with some in it is closed, they are lost. A client
    that was not answered tries again after a second, and is refused then.
    """
    if sys.platform != "linux":
        return
    drop = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # a packet filter: return, keep 0 bytes
    listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(drop)))
