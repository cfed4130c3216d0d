"""One heap for all threads, asked of glibc itself."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

import tastespace.threads as heap_file

PROGRAM = """
import ctypes, runpy, sys, threading
if sys.argv[2:]:
    runpy.run_path(sys.argv[1])["share_one_heap"]()
libc, together = ctypes.CDLL(None), threading.Barrier(8)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def take():
    together.wait()
    libc.free(libc.malloc(50_000))
threads = [threading.Thread(target=take) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps of threads are a thing of glibc")
def test_threads_share_one_heap(monkeypatch):
    monkeypatch.delenv(heap_file.ARENA_VARIABLE, raising=False)

    def heaps(*arguments: str) -> int:
        command = [sys.executable, "-c", PROGRAM, heap_file.__file__, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.count("<heap nr=")

    assert heaps("shared") == 1
    monkeypatch.setenv(heap_file.ARENA_VARIABLE, "1")
    assert heaps() == 1
    monkeypatch.delenv(heap_file.ARENA_VARIABLE)
    assert heaps() > 1  # This is what it is for.
