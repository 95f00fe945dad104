"""Puts a Python 3.14 that runs on this machine into target/python3.14 and prints its path: the tests of remote execution need one.

Where no python3.14 is on the path, Debian's packages of a newer release are unpacked there, from the mirror this machine
uses, with the C library they need; nothing is installed. Where that can't be done, one line says why and the exit code is 1.

    python3 tests/python314.py
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "target/python3.14"
RELEASES = ("testing", "unstable")
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = (
    "python3.14-minimal",
    "libpython3.14-minimal",
    "libpython3.14-stdlib",
    "libc6",
    "zlib1g",
    "libexpat1",
    "libffi8",
)


class CannotError(Exception):
    """Why there is none."""


def main():
    try:
        print(python())
    except CannotError as error:
        sys.exit(f"no Python 3.14: {error}")


def python():
    """The path of a Python 3.14 that runs here; fetched when there is none."""
    for found in (FOLDER / "usr/bin/python3.14", shutil.which("python3.14")):
        if found and runs(found):
            return Path(found)
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise CannotError("it is not on the path, and this machine has no apt-get to fetch it with")
    FOLDER.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as work:
        fetch(Path(work))
        unpacked = Path(work) / "root"
        shutil.rmtree(FOLDER, ignore_errors=True)
        unpacked.rename(FOLDER)
        program = FOLDER / "usr/bin/python3.14"
        if not runs(program):
            give_own_libc(program, Path(work))
    if not runs(program):
        raise CannotError(f"{program} does not run here")
    return program


def runs(program):
    """Whether it starts and finds its library."""
    try:
        return not subprocess.run([program, "-c", "import json, mmap"], capture_output=True, check=False).returncode
    except OSError:
        return False


def fetch(work):
    """Unpacks the packages of the first release that has them."""
    uris = call("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").split()
    mirror = next((uri for uri in uris if uri.endswith("/debian/")), None)
    if mirror is None or not KEYS.exists():
        raise CannotError("this machine has no Debian mirror to fetch it from")
    for release in RELEASES:
        try:
            download(work / release, f"deb [signed-by={KEYS}] {mirror} {release} main\n", PACKAGES)
        except CannotError as error:
            failed = error
            continue
        for package in (work / release).glob("*.deb"):
            call("dpkg-deb", "-x", package, work / "root")
        return
    raise failed


def download(folder, source, packages):
    """Downloads packages into a folder with a state of apt's own, so that the machine's stays as it is."""
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "cache/archives/partial").mkdir(parents=True)
    (folder / "sources.list").write_text(source)
    (folder / "status").touch()
    settings = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    call("apt-get", *options, "-qq", "update")
    call("apt-get", *options, "-qq", "download", *packages, cwd=folder)


def give_own_libc(program, work):
    """Has the interpreter use the C library it came with."""
    patchelf = shutil.which("patchelf")
    if patchelf is None:
        folder = work / "patchelf"
        folder.mkdir()
        call("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "patchelf", cwd=folder)
        call("dpkg-deb", "-x", *folder.glob("*.deb"), folder)
        patchelf = folder / "usr/bin/patchelf"
    loader = next(iter(FOLDER.glob("usr/lib/*/ld-linux-*.so.*")), None)
    if loader is None:
        raise CannotError("its C library has no loader")
    call(patchelf, "--set-interpreter", loader, "--set-rpath", loader.parent, program)


def call(*words, cwd=None):
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise CannotError(f"{words[0]}: {complaint}")
    return done.stdout


if __name__ == "__main__":
    main()
