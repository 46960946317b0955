"""The archive, unpacked in a folder of another name: archive.py --work FOLDER [--build BUILD] ARCHIVE. With --build it is made first,
from that build tree and with the fastest compression, and ARCHIVE is its name. The commands run there, both CMake packages are
found there, no text names the build folder, and what the programs need of the system is what scripts/packaging/needs.py says."""
import argparse
import os
import re
import shutil
import subprocess
import sys

from common import CONSUMER, ROOT, check_commands, check_documents, configure, emptied, expect, files_under, run

NEEDS = os.path.join(ROOT, "scripts/packaging/needs.py")


def make(build, archive):
    folder = os.path.dirname(archive)
    emptied(folder)
    name = os.path.basename(archive).removesuffix(".tar.zst")
    run("cpack", "--config", os.path.join(build, "CPackConfig.cmake"), "-G", "TZST", "-D", f"CPACK_PACKAGE_FILE_NAME={name}",
        "-B", folder, cwd=folder)
    shutil.rmtree(os.path.join(folder, "_CPack_Packages"))


def check_no_traces(prefix, build):
    """Nothing that is read as a text names the folder of the sources or of the build."""
    for path in files_under(prefix):
        with open(path, "rb") as file:
            head = file.read(1 << 20)
        if b"\0" in head:
            continue
        for folder in (ROOT, build):
            expect(not folder or folder.encode() not in head, f"{path} names {folder}")


def check_needs(programs):
    """Compared with what readelf reads; a limit that is met passes, and one below it fails with the symbols."""
    text = run("readelf", "--version-info", "--wide", *programs)
    found = {tuple(map(int, v.split("."))) for v in re.findall(r"Name: GLIBC_([\d.]+) ", text)}
    newest = ".".join(map(str, max(found)))
    said = run(sys.executable, NEEDS, "--glibc", *programs).strip()
    expect(said == newest, f"needs.py says glibc {said}, readelf {newest}")
    run(sys.executable, NEEDS, "--limit", f"GLIBC_{newest}", *programs)
    older = f"{max(found)[0]}.{max(found)[1] - 1}"
    text = run(sys.executable, NEEDS, "--limit", f"GLIBC_{older}", *programs, code=1)
    expect(f"needs GLIBC_{newest}, more than GLIBC_{older}: " in text, f"needs.py --limit GLIBC_{older}:\n{text}")
    no_elf = subprocess.run([sys.executable, NEEDS, __file__], capture_output=True, text=True)
    expect(no_elf.returncode == 1 and "no ELF file" in no_elf.stderr, f"needs.py of a text: {no_elf}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--build", default="")
    parser.add_argument("archive")
    args = parser.parse_args()
    archive, work = os.path.abspath(args.archive), os.path.abspath(args.work)
    build = os.path.abspath(args.build) if args.build else ""
    if build:
        make(build, archive)
    folder = emptied(os.path.join(work, "another place"))
    run("tar", "-xf", archive, "-C", folder)
    name, = os.listdir(folder)
    expect(name.startswith("tessera-"), f"the archive's folder is {name}")
    prefix = os.path.join(folder, "moved")
    os.rename(os.path.join(folder, name), prefix)
    check_no_traces(prefix, build)
    check_commands(prefix)
    check_documents(prefix)
    configure(prefix, os.path.join(work, "archive-consumer"))
    text = run("cmake", "-S", CONSUMER, "-B", emptied(os.path.join(work, "archive-consumer")), "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
               "-DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON", code=1)
    expect("mortar::server needs OpenSSL 3" in " ".join(text.split()), f"without OpenSSL the component server says\n{text}")
    check_needs([os.path.join(prefix, "bin", program) for program in ("tessera", "mortar")])
    shutil.rmtree(folder)
    if build:
        os.remove(archive)


main()
