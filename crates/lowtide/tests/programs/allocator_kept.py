"""Many small blocks, most of them freed: one in sixty-four stays and holds its page, so nothing goes back."""

import ctypes

from pace import steps

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

SIZE, A_STEP = 240, 5_000
blocks = []
for step in steps(150, 13):
    if step < 50:
        for number in range(A_STEP):
            block = libc.malloc(SIZE)
            libc.memset(block, 1, SIZE)
            blocks.append(block)
    elif step == 60:
        for at, block in enumerate(blocks):
            if at % 15:
                libc.free(block)
