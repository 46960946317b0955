"""`tessera get-tileiras` against an index on this machine: tileiras.py PROGRAM... PROGRAM is the command, as words. The packages of the
index are small: their assembler is a script that says the version."""
import functools
import hashlib
import http.server
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile

from common import ROOT, expect

COMMAND = sys.argv[1:]
APT_HELPER = "/usr/lib/apt/apt-helper"
KEPT = ("bin/tileiras", "bin/ptxas", "lib/libnvvm.so.4", "bin/tileirdisasm")
PACKAGES = {"nvidia-cuda-tileiras": ("bin/tileiras", "bin/tileirdisasm"), "nvidia-cuda-nvcc": ("bin/ptxas",), "nvidia-nvvm": ("lib/libnvvm.so.4",)}

with open(os.path.join(ROOT, "include/tessera/codegen/tileiras/tileiras.hpp"), encoding="utf-8") as header:
    VERSION = re.search(r'kPinnedVersion = "([\d.]+)"', header.read())[1]
SCRIPT = f"#!/bin/sh\n[ -z \"$CUDA_HOME\" ] || exit 3\necho 'Cuda compilation tools, V{VERSION}'\n" + "# filling\n" * 500


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


class Index:
    """A package index in a folder, served on 127.0.0.1."""

    def __init__(self, folder):
        self.folder, self.rows = folder, []
        for package, files in PACKAGES.items():
            self.add(package, files)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple"

    def add(self, package, files, script=SCRIPT):
        name = f"{package.replace('-', '_')}-{VERSION}-py3-none-any.whl"
        os.makedirs(os.path.join(self.folder, "simple", package), exist_ok=True)
        os.makedirs(os.path.join(self.folder, "files"), exist_ok=True)
        wheel = os.path.join(self.folder, "files", name)
        with zipfile.ZipFile(wheel, "w") as out:
            out.comment = b"a comment at the end"
            out.writestr("other/bin/tileiras", "not this one")
            for file in files:
                out.writestr(f"nvidia/cu13/{file}", script, zipfile.ZIP_STORED if file == "bin/ptxas" else zipfile.ZIP_DEFLATED)
        with open(os.path.join(self.folder, "simple", package, "index.html"), "w", encoding="utf-8") as page:
            page.write(f'<a href="../../files/other.whl#sha256=0">other.whl</a><a href="../../files/{name}#sha256=0">{name}</a>\n')
        self.rows = [row for row in self.rows if row[0] != package] + [(package, name, wheel)]

    def release(self, damaged=""):
        """A file of names and sums; the sum of the package `damaged` is another."""
        path = os.path.join(self.folder, "release.txt")
        with open(path, "w", encoding="utf-8") as out:
            out.write("# packages of a test\n")
            for package, name, wheel in self.rows:
                with open(wheel, "rb") as file:
                    digest = hashlib.sha256(file.read() + (b"x" if package == damaged else b"")).hexdigest()
                for machine in ("elsewhere", platform.machine()):
                    out.write(f"{machine} {package} {name} {digest}\n")
        return path


def run(cache, *words, code=0, **env):
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "TESSERA_"))}
    variables |= {"TESSERA_CACHE_DIR": cache, "CUDA_HOME": "/nowhere", "no_proxy": "*", **env}
    done = subprocess.run([*COMMAND, *words], env=variables, capture_output=True, text=True, timeout=120)
    text = done.stdout + done.stderr
    expect(done.returncode == code, f"get-tileiras {' '.join(words)} ended with {done.returncode}, expected {code}:\n{text}")
    return text


def installed(cache):
    folder = os.path.join(cache, f"tileiras-{VERSION}")
    return folder, [f for f in KEPT if os.path.isfile(os.path.join(folder, f))]


def check_install(index, cache):
    folder, found = installed(cache)
    expect(run(cache, "--where") == folder + "\n" and not found, "--where prints the folder, and fetches nothing")
    text = run(cache, "--release", index.release(), PIP_INDEX_URL=index.url + "/")
    expect(f"tileiras {VERSION} is in {folder}\n" in text, text)
    expect(installed(cache)[1] == list(KEPT) and os.listdir(cache) == [f"tileiras-{VERSION}"], f"{cache} has {os.listdir(cache)}")
    for file in KEPT:
        with open(os.path.join(folder, file), encoding="utf-8") as kept:
            expect(kept.read() == SCRIPT, f"{file} is not what was packed")
        expect(os.access(os.path.join(folder, file), os.X_OK), f"{file} is not executable")
    expect("already" in run(cache, "--index", "http://127.0.0.1:9/simple"), "a second run fetches nothing")
    os.truncate(os.path.join(folder, "bin/ptxas"), 0)
    run(cache, "--index", index.url, "--release", index.release())
    expect(os.path.getsize(os.path.join(folder, "bin/ptxas")) > 0, "a file that was emptied is fetched again")
    run(cache, "--force", "--index", index.url, "--release", index.release())
    if shutil.which("xz"):
        bundle = os.path.join(cache, "bundle.tar.xz")
        run(cache, "--bundle", bundle)
        listed = subprocess.run(["tar", "-tf", bundle], capture_output=True, text=True, check=True).stdout.split()
        expect(listed == list(KEPT[:3]), f"the bundle has {listed}")


def check_programs(index, folder):
    """Each program that downloads, alone; and none."""
    tools = [shutil.which(name) for name in ("sha256sum", "gzip", "sh", "env")]
    for name in ("curl", "wget", "python3", APT_HELPER):
        program = shutil.which(name)
        if not program:
            continue
        path = os.path.join(folder, "only-" + os.path.basename(name))
        os.makedirs(path)
        for tool in [*tools, program]:
            os.symlink(tool, os.path.join(path, os.path.basename(tool)))
        cache = os.path.join(folder, "by-" + os.path.basename(name))
        run(cache, "--index", index.url, "--release", index.release(), PATH=path)
        expect(len(installed(cache)[1]) == len(KEPT), f"{name} alone downloads")
        text = run(os.path.join(folder, "fails"), "--index", index.url + "/none", "--release", index.release(), PATH=path, code=1)
        expect(f"cannot download {index.url}/none/" in text and f": {name}: " in text and "404" in text, text)


def check_errors(index, folder):
    """What goes wrong is named, and nothing is left behind."""
    cache = os.path.join(folder, "empty")
    text = run(cache, "--index", "http://127.0.0.1:9/simple", "--release", index.release(), code=1)
    expect("cannot download http://127.0.0.1:9/simple/nvidia-cuda-tileiras/" in text and "Is there a network?" in text, text)
    text = run(cache, "--index", index.url, code=1)  # the names that the library pins are not here
    expect(f"has no file nvidia_cuda_tileiras-{VERSION}-" in text, text)
    text = run(cache, "--index", index.url, "--release", index.release("nvidia-nvvm"), code=1)
    expect("nvidia_nvvm" in text and "has the SHA-256 sum" in text and "is not used" in text, text)
    index.add("nvidia-cuda-nvcc", ("bin/other",))
    text = run(cache, "--index", index.url, "--release", index.release(), code=1)
    expect("bin/ptxas is in none of the packages" in text, text)
    index.add("nvidia-cuda-nvcc", ("bin/ptxas",))
    wheel = index.rows[-1][2]
    with open(wheel, "rb+") as file:
        file.truncate(100)
    text = run(cache, "--index", index.url, "--release", index.release(), code=1)
    expect("is no wheel that can be read" in text, text)
    index.add("nvidia-cuda-nvcc", ("bin/ptxas",))
    index.add("nvidia-cuda-tileiras", PACKAGES["nvidia-cuda-tileiras"], "#!/bin/sh\necho of another time; exit 1\n")
    text = run(cache, "--index", index.url, "--release", index.release(), code=1)
    expect("does not run on this machine: exit code 1, of another time" in text, text)
    index.add("nvidia-cuda-tileiras", PACKAGES["nvidia-cuda-tileiras"])
    wheel = index.rows[-1][2]
    with open(wheel, "rb") as file:
        data = bytearray(file.read())
    data[data.index(b"nvidia/cu13/bin/tileiras") + 40] ^= 0xFF  # in what is deflated
    with open(wheel, "wb") as file:
        file.write(data)
    text = run(cache, "--index", index.url, "--release", index.release(), code=1)
    expect("gzip cannot unpack nvidia/cu13/bin/tileiras" in text, text)
    with open(index.release(), "a", encoding="utf-8") as file:
        file.write("x86_64 half-a-line\n")
    text = run(cache, "--release", os.path.join(index.folder, "release.txt"), code=1)
    expect("expected ARCHITECTURE PACKAGE NAME SHA256" in text, text)
    expect(not os.listdir(cache), f"a failed run leaves {os.listdir(cache)}")
    expect("there is no option --hash" in run(cache, "--hash", code=2), "an unknown option")
    expect("expected no argument, found now" in run(cache, "now", code=2), "an argument")
    text = run("", "--release", index.release(), code=1, HOME="", XDG_CACHE_HOME="")
    expect("TESSERA_CACHE_DIR" in text, text)


with tempfile.TemporaryDirectory() as folder:
    index = Index(os.path.join(folder, "index"))
    check_install(index, os.path.join(folder, "cache"))
    check_programs(index, folder)
    check_errors(index, folder)
