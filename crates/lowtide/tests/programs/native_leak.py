"""Memory that no Python object holds: malloc, written to, never freed."""

import ctypes

from pace import steps

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
for step in steps(150, 13):
    for part in range(12):
        libc.memset(libc.malloc(60_000), 1, 60_000)
