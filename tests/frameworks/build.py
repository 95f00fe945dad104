"""Builds target/frameworks-python: one environment with real torch, transformers, accelerate, lightning, keras, datasets.

Why stubs: the torch on the package index is a CUDA build that will not load without 2.5 GB of CUDA libraries, none of
which a CPU job ever calls. Each missing library is replaced by an empty one that has the right name, versions and symbols;
a call into it aborts. Needs `cc` and `readelf`.

    python3 tests/frameworks/build.py [FOLDER]
"""

import hashlib
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REQUIREMENTS = HERE / "requirements.txt"
#: Part of a library's name -> how its symbols begin, where the two differ.
PREFIXES = {"nvshmem_host": "nvshmem"}


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "target/frameworks-python"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    stamp = folder / "built"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    began = time.monotonic()
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "-r", REQUIREMENTS]
    subprocess.run(install, check=True)
    (packages,) = folder.glob("lib/python3.*/site-packages")
    add_stubs(packages)
    subprocess.run([python, "-c", "import torch"], check=True)
    stamp.write_text(wanted)
    print(f"built {folder} in {time.monotonic() - began:.0f} s")


def add_stubs(packages):
    """Puts a stub beside torch's own libraries for every library they need that is nowhere to be found."""
    beside = packages / "torch/lib"
    for old in beside.glob("*.stub"):
        old.with_suffix("").unlink(missing_ok=True)
    present = {file.name for place in (beside, packages / "nvidia") for file in place.rglob("*.so*")}
    needed, undefined = set(), set()
    for library in beside.glob("*.so"):
        needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", library)))
        undefined |= set(re.findall(r" UND (\w+(?:@[\w.]+)?)", readelf("--dyn-syms", library)))
    for name in sorted(needed - present):
        stem = re.sub(r"^lib|\.so.*$", "", name)
        if re.match(r"cu(?!da$)|nv|nccl", stem):
            build_stub(beside / name, PREFIXES.get(stem, stem), undefined)


def build_stub(path, prefix, undefined):
    """Compiles one stub with the symbols that begin with `prefix`, or that are versioned with the library's name."""
    plain, versions = set(), {}
    for symbol in undefined:
        name, _, version = symbol.partition("@")
        if version == path.name or name.startswith(prefix):
            (versions.setdefault(version, set()) if version else plain).add(name)
    names = plain.union(*versions.values())
    code = "#include <stdlib.h>\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in sorted(names))
    command = ["cc", "-x", "c", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{path.name}", "-o", path, "-"]
    script = path.with_name(path.name + ".stub")
    script.write_text("".join(f"{v} {{ global: {'; '.join(sorted(n))}; }};\n" for v, n in versions.items()))
    if versions:
        command.append(f"-Wl,--version-script,{script}")
    subprocess.run(command, input=code, text=True, check=True)


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
